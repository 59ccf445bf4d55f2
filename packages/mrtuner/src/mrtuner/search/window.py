"""What a server did in a window of time, from its counters alone.

Pure: takes counters that were read, returns figures. Source: pg_stat_database, pg_stat_statements,
pg_stat_replication.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Final

#: Untouched windows that differ by more than this are too unlike to compare anything with.
UNLIKE: Final = 0.10
#: The statements that ran in all windows must have so much of the time of each.
_COMMON: Final = 0.5
#: Statements of both untouched windows that did not end in the tried one: so much of the time.
_VANISHED: Final = 0.10
#: Backends report to pg_stat_database about once a second, often all at once: in windows shorter
#: than this [s], that second alone makes them unlike, if nothing else is counted.
SHORTEST_BY_TRANSACTIONS: Final = 20

#: Calls and execution time [ms] of each statement of each role.
Statements = Mapping[tuple[int, int], tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What happened between two readings of the counters."""

    seconds: float
    commits: float
    rollbacks: float
    statements: Statements | None = None  # None: pg_stat_statements cannot be read
    behind: float | None = None  # bytes that the slowest standby had still to replay; None: none
    lost: bool = False  # counters were reset meanwhile
    tripped: str | None = None  # why it was ended early
    others: tuple[float, float] = (0.0, 0.0)  # commits and rollbacks in other databases
    #: Statements that run for longer than they ever took, and what they took at most [s].
    overdue: Sequence[tuple[float, float]] = ()
    deltas: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def work(self) -> float:
        """Calls of statements, which are counted at once; else transactions, a second later."""
        if self.statements is None:
            return self.commits
        return sum(calls for calls, _ in self.statements.values())

    @property
    def throughput(self) -> float:
        """What was done in a second."""
        return self.work / self.seconds


def speeds(windows: Sequence[Window]) -> list[float] | None:
    """Return how fast each window ran its statements: 1000 / mean time [ms].

    Only statements that ran in all windows count, each by its calls in the first and the last
    window, which are alike: other statements in one window are no difference in speed. None if
    they are less than half of a window's time.
    """
    known = [one.statements for one in windows]
    seen = [one for one in known if one is not None]
    if len(seen) < len(windows):
        return None
    common = set.intersection(*(set(one) for one in seen))
    for one in seen:
        if sum(one[key][1] for key in common) <= _COMMON * sum(ms for _, ms in one.values()):
            return None
    weights = {key: seen[0][key][0] + seen[-1][key][0] for key in common}
    calls = sum(weights.values())
    return [
        1000 * calls / sum(weight * one[key][1] / one[key][0] for key, weight in weights.items())
        for one in seen
    ]


def vanished(windows: Sequence[Window]) -> str | None:
    """Return why a window between two untouched ones shows nothing; None if it may show something.

    A statement counts when it ends: one that became so slow that none ended is not slow but absent.
    """
    first, tried, last = (one.statements or {} for one in windows)
    absent = (first.keys() & last.keys()) - tried.keys()
    share = max(
        sum(one[key][1] for key in absent) / (sum(ms for _, ms in one.values()) or 1.0)
        for one in (first, last)
    )
    if share <= _VANISHED:
        return None
    return f"statements with {share:.0%} of the time of the windows around it did not end in it"


def unlike(around: Sequence[Window], rates: Sequence[float]) -> str | None:
    """Return why the windows around a tried one show nothing; None if they are alike."""
    if any(one.lost for one in around):
        return "counters were reset meanwhile"
    for what, (a, b) in (
        ("throughputs", (around[0].throughput, around[-1].throughput)),
        ("mean statement times", (rates[0], rates[-1])),
    ):
        if not (a > 0 and b > 0):
            return "no transaction ended in one of the windows around it"
        if abs(log(b / a)) > log(1 + UNLIKE):
            return f"{what} of the windows around it differ by over {UNLIKE:.0%}"
    return None


def grown(before: Statements | None, after: Statements | None) -> Statements | None:
    """Return the statements that ran between two readings; None if unknown, or if most were lost.

    One that was evicted meanwhile and ran again has lost its count, and is left out.
    """
    if before is None or after is None:
        return None
    moved = {
        key: (calls - before.get(key, (0.0, 0.0))[0], ms - before.get(key, (0.0, 0.0))[1])
        for key, (calls, ms) in after.items()
    }
    lost = [key for key in before if key not in moved or min(moved[key]) < 0]
    if 2 * len(lost) > len(before):
        return None
    return {key: one for key, one in moved.items() if min(one) > 0}
