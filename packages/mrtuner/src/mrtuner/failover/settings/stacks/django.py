"""Django over psycopg."""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.stack import Stack


def write(limits: Bounds) -> str:
    """settings.py: what to merge into the database."""
    rows = "\n".join(f'            "{name}": "{value}",' for name, value in limits.conninfo.items())
    return (
        "DATABASES = {\n"
        '    "default": {\n'
        '        "ENGINE": "django.db.backends.postgresql",\n'
        '        "CONN_HEALTH_CHECKS": True,\n'
        '        "CONN_MAX_AGE": 600,\n'
        f'        "OPTIONS": {{\n{rows}\n        }},\n'
        "    }\n"
        "}\n"
    )


STACK = Stack(
    name="django", title="Django", file="settings.py", write=write,
    sets_socket=True, read_timeout=False, read_write=True,
    attempts=1,
    verified="verified with Django 5.2.19 over psycopg 3.3.9",
)  # fmt: skip
