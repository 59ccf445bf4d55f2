"""How near an instance is to its limits, where a limit is recorded with what is used of it.

Declared once, for the screen over a period and for the overview of all instances.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mrtuner.history.analysis import CPU_ALL, CPU_USED
from mrtuner.history.reading import History
from mrtuner.history.series import Grid, Kind, Measure, Series, lines, rate, ratio, split

#: Transaction IDs are compared modulo 2³²: half of them are in the past.
TRANSACTIONS: Final = 2**31
_WORD: Final = re.compile(r"[a-z_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLimit:
    """A limit, and how its share in use is computed from a source."""

    name: str
    meaning: str  # what the limit is, in words
    source: str
    used: Measure
    whole: Measure | None = None  # divided by this; None where `used` is a share already
    by: str | None = None  # the highest of several counts: that of one database

    @property
    def measures(self) -> Mapping[str, Measure]:
        """What is asked of the source."""
        return {"used": self.used} | ({"whole": self.whole} if self.whole else {})

    def share(self, used: float | None, whole: float | None = None) -> float | None:
        """The share in use; None where it is not known."""
        if self.whole is None:
            return used
        return used / whole if used is not None and whole else None


LIMITS: Final = (
    RecordedLimit(
        name="connections", meaning="max_connections", source="connections",
        used=Measure(Kind.HIGHEST, "clients"), whole=Measure(Kind.HIGHEST, "maximum"),
    ),
    RecordedLimit(
        name="CPU", meaning="all CPU time of the host", source="host",
        used=ratio(CPU_USED, CPU_ALL),
    ),
    RecordedLimit(
        name="CPU quota", meaning="time in which the quota held the server back", source="host",
        used=rate("group_throttled"),
    ),
    *(
        RecordedLimit(
            name=name, meaning=meaning, source="ages", by="database",
            used=Measure(Kind.LAST, column, scale=1 / TRANSACTIONS),
        )
        for name, meaning, column in (
            ("transaction IDs", "2³¹ transactions since the oldest freeze", "age"),
            ("multixact IDs", "2³¹ multixacts since the oldest freeze", "multixact_age"),
        )
    ),
    RecordedLimit(
        name="sequences", meaning="the last number of a sequence, or of its column",
        source="sequences", by="schema || '.' || name", used=Measure(Kind.LAST, "used"),
    ),
    RecordedLimit(
        name="WAL kept for a slot", meaning="max_slot_wal_keep_size, beyond which it is lost",
        source="slots", by="name", used=Measure(Kind.LAST, "used"),
    ),
)  # fmt: skip


def recorded(history: History) -> list[RecordedLimit]:
    """Return the limits that a history can tell of: a recorder before ours had fewer columns."""
    columns = {one.name: {column.name for column in one.columns} for one in history.sources}
    return [
        limit
        for limit in LIMITS
        if all(
            set(_WORD.findall(measure.columns)) <= columns.get(limit.source, set())
            for measure in limit.measures.values()
        )
    ]


def shares(history: History, over: Grid) -> list[Series]:
    """Return the share of each limit over time, where something is known of it."""
    found = [Series(limit.name, _share(history, over, limit)) for limit in recorded(history)]
    return [one for one in found if any(value is not None for value in one.values)]


def _share(history: History, over: Grid, limit: RecordedLimit) -> list[float | None]:
    if limit.by is not None:
        parts = split(history, over, limit.source, limit.used, limit.by)
        return [highest(step) for step in zip(*(one.values for one in parts), strict=True)]
    found = lines(history, over, limit.source, limit.measures)
    return [limit.share(*step) for step in zip(*(one.values for one in found), strict=True)]


def highest(values: Iterable[float | None]) -> float | None:
    """The highest of those that are known; None where none is."""
    return max((value for value in values if value is not None), default=None)
