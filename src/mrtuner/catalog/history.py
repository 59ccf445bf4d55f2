"""How a parameter changed from major to major, in sentences."""

from __future__ import annotations


def history(name: str) -> tuple[str, ...]:
    """When it appeared, changed or went; empty for what never changed since the oldest major."""
    return ()
