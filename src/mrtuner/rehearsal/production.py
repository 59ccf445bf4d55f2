"""Which servers are production, by what their owners say of them: their tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TAGS: Final = frozenset({"environment", "env", "stage"})
VALUES: Final = frozenset({"prod", "production", "live"})


def production_tag(tags: Mapping[str, str]) -> str | None:
    """The tag that says production, as ``Environment=Production``; None when none does.

    Nothing is concluded from its absence.

    >>> production_tag({"Name": "orders", "Env": "PROD"})
    'Env=PROD'
    """
    for key, value in tags.items():
        if key.strip().lower() in TAGS and value.strip().lower() in VALUES:
            return f"{key}={value}"
    return None
