from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("shop", "0002_snowflake")]
    operations = [
        migrations.RunSQL(
            # recipe
            "ALTER TABLE shop_order_tags ALTER id DROP IDENTITY IF EXISTS, ALTER id TYPE bigint, ALTER id SET DEFAULT snowflake_nextval()"
            # end
        ),
    ]
