"""What a committed transaction is worth after a crash, compared between the sides of a comparison.

A side must not win by risking data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

Settings = Mapping[str, str]

#: Sides that differ here are not compared.
DURABILITY: Final = (
    "fsync", "full_page_writes", "synchronous_commit", "synchronous_standby_names",
    "wal_sync_method", "data_checksums",
)  # fmt: skip
#: These delay a commit without weakening it.
_COMMIT_DELAY: Final = ("commit_delay", "commit_siblings")


def unequal_durability(sides: Mapping[str, Settings]) -> list[str]:
    """Which settings make a commit worth less on one side than on another, in words."""
    return list(_differences(sides, DURABILITY))


def unequal_delays(sides: Mapping[str, Settings]) -> list[str]:
    """Which settings make commits wait differently; this loses no data."""
    return [
        f"{delay}: commits wait differently, but no data can be lost"
        for delay in _differences(sides, _COMMIT_DELAY)
    ]


def _differences(sides: Mapping[str, Settings], names: Sequence[str]) -> Iterator[str]:
    for name in names:
        values = {side: known.get(name, "unknown") for side, known in sides.items()}
        if len(set(values.values())) > 1:
            yield f"{name} is " + ", ".join(
                f"{value or 'empty'} for {side}" for side, value in values.items()
            )
