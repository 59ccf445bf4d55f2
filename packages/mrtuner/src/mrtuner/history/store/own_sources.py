"""What a recorder keeps about itself, in tables like those of the sources."""

from __future__ import annotations

from typing import Final

from mrtuner.history.recording.source import Column, Kind, Rollup, Source, Type

_DAY: Final = 86_400.0


def _own(name: str, about: str, columns: tuple[Column, ...]) -> Source:
    return Source(
        name=name,
        help=about,
        interval=0,
        timeout=0,
        keep=400 * _DAY,
        keep_rollup=1826 * _DAY,
        columns=columns,
        rollup=Rollup.HOUR,
        rollup_by=tuple(column.name for column in columns if column.kind is Kind.KEY),
        reset=None,
        extension=None,
        grant=None,
        queries={},
    )


SAMPLES: Final = _own(
    "samples",
    "When each source was sampled: no sample means a gap; a sample without rows, no change",
    (
        Column("source", Kind.KEY, Type.TEXT, None, "the source"),
        Column("rows", Kind.GAUGE, Type.INTEGER, None, "rows that the server returned"),
        Column("cost_ms", Kind.GAUGE, Type.FLOAT, "ms", "time until they arrived"),
    ),
)
EVENTS: Final = _own(
    "events",
    "Restarts, crashes, failovers, resets of statistics, gaps in the recording",
    (
        Column(
            "kind",
            Kind.TEXT,
            Type.TEXT,
            None,
            "restart, crash, failover, reset, lost, full, …",
        ),
        Column("detail", Kind.TEXT, Type.TEXT, None, "in words"),
    ),
)
OWN: Final = (SAMPLES, EVENTS)
