import json
from datetime import timedelta

import django
from django.db import connection, models
from django.db.models.expressions import RawSQL
from django.utils import timezone

django.setup()


class Order(models.Model):
    n = models.IntegerField()
    # recipe
    created_at = models.GeneratedField(
        expression=RawSQL("to_timestamp(((id >> 22) + 1288834974657)::double precision / 1000::double precision)", []),
        output_field=models.DateTimeField(),
        db_persist=False,
    )
    # end

    class Meta:
        app_label = "none"
        db_table = "orders"


hour = timezone.now() - timedelta(hours=1)
since = Order.objects.filter(created_at__gte=hour).order_by("-created_at")
found = {"since": [order.n for order in since][::-1], "until": [order.n for order in Order.objects.filter(created_at__lt=hour)]}
with connection.cursor() as cursor:
    cursor.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
plans = [since.explain()]
Order.objects.create(n=4)
assert Order.objects.latest("created_at").n == 4
print(json.dumps({"found": found, "plans": plans}))
