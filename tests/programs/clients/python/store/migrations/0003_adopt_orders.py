# recipe
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("store", "0002_wide_orders")]
    operations = [
        migrations.RunSQL(["CALL snowflake_adopt.start('store_order')", "CALL snowflake_adopt.finish('store_order')"]),
    ]
# end
