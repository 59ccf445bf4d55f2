"""What a Django application behind gunicorn sets, and no more."""

from __future__ import annotations

import os


def _database() -> dict[str, object]:
    from psycopg.conninfo import conninfo_to_dict

    given = conninfo_to_dict(os.environ["DATABASE_URL"])
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given.get("dbname", "postgres"),
        "USER": given.get("user", ""),
        "HOST": given.get("host", ""),
        "PORT": given.get("port", ""),
        "CONN_MAX_AGE": None,  # a worker keeps its connection
        "DISABLE_SERVER_SIDE_CURSORS": True,  # as a pooler in transaction mode needs
    }


SECRET_KEY = os.environ.get("SECRET_KEY", "nothing is signed here")
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "catalog.urls"
INSTALLED_APPS: list[str] = []
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
DATABASES = {"default": _database()}
USE_TZ = True
