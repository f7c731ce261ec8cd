import os

import django
from django.conf import settings
from django.db import connection, models
from report import report

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": os.environ["PGDATABASE"],
            "USER": os.environ["PGUSER"],
            "HOST": os.environ["PGHOST"],
        }
    }
)
django.setup()


# recipe
class SnowflakeAutoField(models.BigAutoField):
    def db_type_suffix(self, connection):
        return "DEFAULT snowflake_nextval()"


class Order(models.Model):
    id = SnowflakeAutoField(primary_key=True)
    n = models.IntegerField()
    # end

    class Meta:
        app_label = "shop"
        db_table = "orders"


with connection.schema_editor() as editor:
    editor.create_model(Order)
orders = Order.objects.bulk_create(Order(n=n) for n in range(500))
one = Order.objects.create(n=500)
assert Order.objects.get(pk=one.pk).n == 500
one.delete()
report({order.n: order.pk for order in orders})
