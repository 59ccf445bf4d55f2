"""The instances of a store, by name."""

from __future__ import annotations

from collections.abc import Collection

from mrtuner.errors import UsageError


def require_instance(instance: str, known: Collection[str]) -> None:
    """Raise UsageError unless the store has an instance of this name."""
    if instance not in known:
        raise UsageError(
            f"the store has no instance {instance}",
            f"It has {', '.join(known)}." if known else "Record one first.",
        )
