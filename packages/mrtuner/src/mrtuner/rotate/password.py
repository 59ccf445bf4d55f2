"""Random passwords."""

from __future__ import annotations

import secrets


def new_password() -> str:
    """Return 256 random bits in characters that need no quoting in a URI, a shell or ~/.pgpass."""
    return secrets.token_urlsafe(32)
