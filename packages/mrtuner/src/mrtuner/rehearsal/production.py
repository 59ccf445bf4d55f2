"""Which servers are production, according to their tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TAGS: Final = frozenset({"environment", "env", "stage"})
VALUES: Final = frozenset({"prod", "production", "live"})


def production_tag(tags: Mapping[str, str]) -> str | None:
    """Return the tag that says production, as ``Environment=Production``, or None.

    The absence of such a tag proves nothing.

    >>> production_tag({"Name": "orders", "Env": "PROD"})
    'Env=PROD'
    """
    for key, value in tags.items():
        if key.strip().lower() in TAGS and value.strip().lower() in VALUES:
            return f"{key}={value}"
    return None
