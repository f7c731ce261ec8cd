# recipe
from django.db import models


class SnowflakeAutoField(models.BigAutoField):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs | {"db_default": models.Func(function="snowflake_nextval")})

    def get_internal_type(self):
        return "BigIntegerField"  # has no sequence

    def get_default(self):
        return None  # the database gives it
# end
