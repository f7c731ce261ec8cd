"""Settings as `startproject` writes them, for the application `polls`."""

from settings import DATABASES, SECRET_KEY, USE_TZ  # noqa: F401

INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "polls"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
