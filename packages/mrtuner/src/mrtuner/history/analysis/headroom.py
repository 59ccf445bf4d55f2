"""How near an instance is to those of its limits that are recorded along with their use.

Declared once, for the screen over a period and for the overview of all instances.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mrtuner.history.analysis.host_work import CPU_ALL, CPU_USED
from mrtuner.history.analysis.series import (
    ChartLine,
    Grid,
    Kind,
    Measure,
    lines,
    rate,
    ratio,
    split,
    splits,
)
from mrtuner.history.reading import History

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
    by: str | None = None  # SQL that splits the rows; the highest share counts

    @property
    def measures(self) -> Mapping[str, Measure]:
        return {"used": self.used} | ({"whole": self.whole} if self.whole else {})

    def share(self, used: float | None, whole: float | None = None) -> float | None:
        """Return the share in use; None if it is not known."""
        if self.whole is None:
            return used
        return used / whole if used is not None and whole else None


LIMITS: Final = (
    RecordedLimit(
        name="connections", meaning="what max_connections leaves to ordinary roles",
        source="connections",
        used=Measure(Kind.HIGHEST, "clients"), whole=Measure(Kind.HIGHEST, "ordinary"),
    ),
    RecordedLimit(
        name="CPU", meaning="all CPU time of the host", source="host",
        used=ratio(CPU_USED, CPU_ALL),
    ),
    RecordedLimit(
        name="CPU quota", meaning="time during which the quota throttled the server", source="host",
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
        name="sequences", meaning="the highest number of a sequence, or of its column",
        source="sequences", by="schema || '.' || name", used=Measure(Kind.LAST, "used"),
    ),
    RecordedLimit(
        name="file systems", meaning="the size of a file system of the host", source="filesystems",
        by="mount", used=Measure(Kind.LAST, "used"),
    ),
    RecordedLimit(
        name="WAL kept for a slot", meaning="max_slot_wal_keep_size, beyond which it is lost",
        source="slots", by="name", used=Measure(Kind.LAST, "used"),
    ),
)  # fmt: skip


def recorded(history: History) -> list[RecordedLimit]:
    """Return the limits whose columns a history has: older recorders stored fewer."""
    columns = {one.name: {column.name for column in one.columns} for one in history.sources}
    return [
        limit
        for limit in LIMITS
        if all(
            set(_WORD.findall(measure.columns)) <= columns.get(limit.source, set())
            for measure in limit.measures.values()
        )
    ]


def shares(history: History, over: Grid) -> list[ChartLine]:
    """Return the share in use of each limit over time, without limits that have no values."""
    limits = recorded(history)
    # Each source is asked once.
    asked = {
        source: _measured(history, over, source, limits)
        for source in dict.fromkeys(limit.source for limit in limits if limit.by is None)
    }
    found = [
        ChartLine(limit.name, _share(history, over, limit, asked.get(limit.source, {})))
        for limit in limits
    ]
    return [one for one in found if any(value is not None for value in one.values)]


def _measured(
    history: History, over: Grid, source: str, limits: Iterable[RecordedLimit]
) -> dict[Measure, list[float | None]]:
    """Return the measures that limits need from a source, over time."""
    asked = [
        measure
        for limit in limits if limit.source == source and limit.by is None
        for measure in limit.measures.values()
    ]  # fmt: skip
    found = lines(history, over, source, {str(n): measure for n, measure in enumerate(asked)})
    return {measure: one.values for measure, one in zip(asked, found, strict=True)}


def _share(
    history: History, over: Grid, limit: RecordedLimit,
    measured: Mapping[Measure, list[float | None]],
) -> list[float | None]:  # fmt: skip
    if limit.by == "database":
        parts = by_database(history, over)[limit.used.of]
        steps = zip(*(one.values for one in parts), strict=True)
        ages = (highest(step) for step in steps)
        return [None if age is None else age * limit.used.scale for age in ages]
    if limit.by is not None:
        parts = split(history, over, limit.source, limit.used, limit.by)
        return [highest(step) for step in zip(*(one.values for one in parts), strict=True)]
    parts_of = [measured[measure] for measure in limit.measures.values()]
    return [limit.share(*step) for step in zip(*parts_of, strict=True)]


def by_database(history: History, over: Grid) -> dict[str, list[ChartLine]]:
    """Return the age of the oldest IDs of each database over time, by column."""
    measures = {
        limit.used.of: Measure(limit.used.kind, limit.used.of)
        for limit in LIMITS
        if limit.by == "database"
    }
    return history.once(
        ("ages", over.about.instance, over.begin, over.step, over.count),
        lambda: splits(history, over, "ages", measures, "database"),
    )


def highest(values: Iterable[float | None]) -> float | None:
    """Return the highest of the known values; None if there are none."""
    return max((value for value in values if value is not None), default=None)
