"""What a history tells of the last day."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mrtuner.check.catalogue import check
from mrtuner.check.state import State
from mrtuner.findings import Finding, Severity

#: An incident that ended within this time before now may still go on [s].
_STILL: Final = 600.0


@check(
    "incident",
    judged="a lock queue of 5 s, twice the usual sessions, a statement at twice its usual time, "
    "three checkpoints before their time, a restart or a crash within a day",
    source="the history; the thresholds are chosen",
    needs=("history",),
)
def incident(state: State) -> Iterator[Finding]:
    """Something went wrong within the last day, as the history tells. Only with --history."""
    for one in state.incidents or ():
        ended = one.end.timestamp()
        still = state.at - ended < _STILL
        yield Finding(
            id="incident",
            severity=Severity.TO_DO if still else Severity.TO_KNOW,
            text=f"{one.begin:%H:%M:%S} to {one.end:%H:%M:%S} UTC: {one.text}",
            consequence="it may go on" if still else "it may come again",
            cost=ended,
            since=one.begin.timestamp(),
            basis="recorded by mrtuner record",
            remedy=("mrtuner history show --since 24h, or the viewer: mrtuner serve",),
        )
