# recipe
from django.apps import AppConfig


class ShopConfig(AppConfig):
    name = "shop"
    default_auto_field = "shop.fields.SnowflakeAutoField"
# end
