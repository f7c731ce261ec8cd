"""With db_default, bulk_create leaves the keys of the objects unset."""

import django
from django.db import connection, models
from report import report

django.setup()


class Order(models.Model):
    id = models.BigIntegerField(primary_key=True, db_default=models.Func(function="snowflake_nextval"))
    n = models.IntegerField()

    class Meta:
        app_label = "none"
        db_table = "orders"


with connection.schema_editor() as editor:
    editor.create_model(Order)
orders = Order.objects.bulk_create(Order(n=n) for n in range(500))
report({order.n: order.pk for order in orders})
