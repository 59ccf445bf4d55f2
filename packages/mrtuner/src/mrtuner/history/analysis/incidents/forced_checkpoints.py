"""Checkpoints that came before their time, close together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from mrtuner.history.analysis.changes import HistoryChange, changes
from mrtuner.history.analysis.incidents.model import Incident
from mrtuner.history.analysis.incidents.samples import near, span_of
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, as_sampled
from mrtuner.history.reading import History
from mrtuner.units import pretty_duration
from mrtuner.wording import enumerated

#: Checkpoints before their time: so many, each within this time of the one before.
_FORCED: Final = 3
_CLOSE: Final = timedelta(minutes=5)
#: Settings that say how much WAL there may be until a checkpoint, and how much is written: of a
#: value, a number that is higher if checkpoints come earlier. One for which it rose no longer
#: before than this is told. Source: xlog.c, CalculateCheckpointSegments.
_EARLIER: Final[Mapping[str, Callable[[str], float]]] = {
    "checkpoint_completion_target": float,
    "full_page_writes": lambda value: value == "on",
    "max_wal_size": lambda value: -float(value),
    "wal_compression": lambda value: value == "off",
    "wal_level": ["minimal", "replica", "logical"].index,
}
_JUST_BEFORE: Final = timedelta(minutes=10)


def forced_checkpoints(history: History, about: HistoryPeriod) -> Iterator[Incident]:
    if not as_sampled(history, "checkpoints", about):
        return
    # Those of a longer time each, as over a gap, need not have come close together.
    rows = history.rows(
        f"""SELECT time, seconds, requested FROM checkpoints
            WHERE {IN_PERIOD} AND requested > 0 AND seconds <= {_CLOSE.seconds} * requested
            ORDER BY time""",
        about.parameters, inside=True,
    )  # fmt: skip
    for run in near(((span_of(row)[1], row) for row in rows), _CLOSE):
        number = int(sum(row["requested"] for _, row in run))
        if number >= _FORCED:
            first, seen = span_of(run[0][1])
            end = run[-1][0]
            before_it = replace(about, begin=first - _JUST_BEFORE, end=seen)
            causes = [one for one in changes(history, before_it) if _made_earlier(one)]
            begin = max(first, *(one.at for one in causes)) if causes else first
            before = enumerated([one.detail for one in causes])
            length = pretty_duration((end - begin).total_seconds())
            yield Incident(
                kind="checkpoints",
                begin=begin,
                end=end,
                screen="wal",
                text=f"{number} checkpoints came before their time within {length}: WAL reached "
                f"max_wal_size, or somebody asked for them{before and f'; just before: {before}'}",
            )


def _made_earlier(change: HistoryChange) -> bool:
    """Whether it is a setting whose new value makes checkpoints come earlier."""
    measure = _EARLIER.get(change.name or "")
    if measure is None or change.before is None or change.value is None:
        return False
    return measure(change.value) > measure(change.before)
