import json
from datetime import timedelta

import django
from django.db import models
from django.utils import timezone

django.setup()


class Order(models.Model):
    n = models.IntegerField()
    # recipe
    created_at = models.GeneratedField(
        expression=models.expressions.RawSQL(
            "to_timestamp(((id >> 22) + 1288834974657)::double precision / 1000::double precision)", []
        ),
        output_field=models.DateTimeField(),
        db_persist=False,
    )
    # end

    class Meta:
        app_label = "none"
        db_table = "orders"


hour, day = (timezone.now() - timedelta(hours=hours) for hours in (1, 24))
since = Order.objects.filter(created_at__gte=hour).order_by("-created_at")[:10]
until = Order.objects.filter(created_at__gte=day, created_at__lt=hour)
found = {"since": [order.n for order in since][::-1], "until": [order.n for order in until]}
created = Order.objects.create(n=4).created_at
latest = Order.objects.latest("created_at").n
page = [order.n for order in Order.objects.order_by("-created_at", "-id")[1:2]]
print(json.dumps(found | {"created": round(created.timestamp() * 1000), "latest": latest, "page": page}))
