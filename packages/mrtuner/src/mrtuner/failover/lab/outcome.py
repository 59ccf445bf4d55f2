"""What a scenario showed: each case as predicted and measured, and what the probes saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from mrtuner.described import Doc
from mrtuner.failover.predict.hang_times import SLACK
from mrtuner.failover.predict.timer_wheel import Band


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One case: the predicted band [s] (None: forever), and each hang (None: it did not end)."""

    label: str
    predicted: Band | None
    decided_by: str
    measured: tuple[float | None, ...]
    slack: float = SLACK
    watched: float = 0.0  # s, how long hangs that did not end were watched

    @property
    def fits(self) -> bool | None:
        """Whether all hangs are within `slack` of the band; None if not watched long enough."""
        if self.predicted is None:
            return all(hang is None for hang in self.measured)
        ended = [hang for hang in self.measured if hang is not None]
        if len(ended) < len(self.measured):
            return None if self.predicted.low > self.watched else False
        return all(self.predicted.covers(hang, slack=self.slack) for hang in ended)


def union(spans: Sequence[Band | None]) -> Band | None:
    """Return the band that contains them all; None if any is endless."""
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return None
    return Band.over(known)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """One scenario."""

    scenario: str
    words: str
    release: str
    hz: int
    parameters: Mapping[str, str]  # of every client (libpq)
    sysctls: Mapping[str, int]  # of the clients' namespace
    rows: tuple[CaseResult, ...]
    seen: tuple[ProbedKind, ...]
    acknowledged: int  # writes
    lost: int  # acknowledged, but missing at the end
    fenced: float | None = None  # s from the fault until the old primary was killed

    @property
    def fits(self) -> bool:
        """Whether nothing measured is outside its band."""
        return all(row.fits is not False for row in self.rows)
