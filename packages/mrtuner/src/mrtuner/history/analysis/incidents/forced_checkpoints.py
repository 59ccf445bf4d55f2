"""Checkpoints that came before their time, close together."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from mrtuner.history.analysis.incidents.model import Incident
from mrtuner.history.analysis.incidents.samples import near, span_of
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, as_sampled
from mrtuner.history.reading import History
from mrtuner.units import pretty_duration

#: Checkpoints before their time: so many, each within this time of the one before.
_FORCED: Final = 3
_CLOSE: Final = timedelta(minutes=5)


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
            begin, end = span_of(run[0][1])[0], run[-1][0]
            length = pretty_duration((end - begin).total_seconds())
            yield Incident(
                kind="checkpoints",
                begin=begin,
                end=end,
                screen="wal",
                text=f"{number} checkpoints came before their time within {length}: WAL reached "
                "max_wal_size, or somebody asked for them",
            )
