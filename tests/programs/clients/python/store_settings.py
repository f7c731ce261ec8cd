"""Settings of a project whose orders are adopted while processes of the application use them."""

from settings import DATABASES, DEFAULT_AUTO_FIELD, SECRET_KEY, USE_TZ  # noqa: F401

INSTALLED_APPS = ["store"]
