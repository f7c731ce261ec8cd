import json
from datetime import timedelta

import django
from django.db import models
from django.utils import timezone

django.setup()


class Order(models.Model):
    n = models.IntegerField()

    class Meta:
        app_label = "none"
        db_table = "orders"


def numbers(query):
    return [order.n for order in query]


now = timezone.now()
hour = now - timedelta(hours=1)
found = {
    "since": numbers(
        # recipe
        Order.objects.filter(models.Func("id", hour, function="snowflake_within", output_field=models.BooleanField()))
        # end
    ),
    "until": numbers(
        Order.objects.filter(
            models.Func(
                "id", now - timedelta(hours=3), hour, function="snowflake_within", output_field=models.BooleanField()
            )
        )
    ),
}
print(json.dumps(found))
