"""What a scenario shows: whether hangs are as predicted, and what a kind of probe saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from mrtuner.described import Doc
from mrtuner.failover.predict.timer_wheel import Band


def fits(
    predicted: Band | None, hangs: Sequence[float | None], *, slack: float, watched: float
) -> bool | None:
    """Whether all hangs [s] are within `slack` of the band; None if not `watched` long enough.

    A band of None is for ever; a hang of None did not end.
    """
    if predicted is None:
        return all(hang is None for hang in hangs)
    ended = [hang for hang in hangs if hang is not None]
    if len(ended) < len(hangs):
        return None if predicted.low > watched else False
    return all(predicted.covers(hang, slack=slack) for hang in ended)


def union(spans: Sequence[Band | None]) -> Band | None:
    """Return the band that contains them all; None if any is endless."""
    known = [span for span in spans if span is not None]
    return Band.over(known) if len(known) == len(spans) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedKind:
    """What one kind of probe saw."""

    kind: Annotated[str, Doc("what the probe does")]
    outage: Annotated[
        float | None, Doc("the longest time without a good answer; null: it did not end")
    ]
    failed: Annotated[int, Doc("attempts that ended with an error")]
    late: Annotated[int, Doc("attempts answered after more than a second")]
    stale: Annotated[int, Doc("attempts answered by the old primary after the new one was there")]
