import os

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["PGDATABASE"],
        "USER": os.environ["PGUSER"],
        "HOST": os.environ["PGHOST"],
    }
}
INSTALLED_APPS = ["shop"]
DEFAULT_AUTO_FIELD = os.environ.get("DEFAULT_AUTO_FIELD", "django.db.models.BigAutoField")
SECRET_KEY = "of a test"
USE_TZ = True
# recipe
REST_FRAMEWORK = {"COERCE_BIGINT_TO_STRING": True}
# end
