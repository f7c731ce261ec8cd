import django
from django.db import connection, models
from report import report
from shop.fields import SnowflakeAutoField

django.setup()


class Order(models.Model):
    id = SnowflakeAutoField(primary_key=True)
    n = models.IntegerField()

    class Meta:
        app_label = "none"
        db_table = "orders"


with connection.schema_editor() as editor:
    editor.create_model(Order)
orders = Order.objects.bulk_create(Order(n=n) for n in range(500))
one = Order.objects.create(n=500)
assert Order.objects.get(pk=one.pk).n == 500
one.delete()
report({order.n: order.pk for order in orders})
