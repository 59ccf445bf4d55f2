"""The most sessions that each role had in a period, not all at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from mrtuner.history.analysis.period import HistoryPeriod, as_sampled
from mrtuner.history.reading import History

#: A count that did not change has no row: the last one before a period is at most so old, or it is
#: taken for zero.
_BEFORE: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePeak:
    """The most sessions that a role had at once."""

    role: str
    sessions: int
    at: datetime  # UTC


def role_peaks(history: History, about: HistoryPeriod) -> Sequence[RolePeak] | None:
    """Return the peak of each role, the highest first; None if that was not recorded."""
    if not as_sampled(history, "sessions_by_role", about):
        return None
    begin = about.begin.replace(tzinfo=None)
    rows = history.rows(
        """SELECT time, database, role, state, sessions FROM sessions_by_role
           WHERE instance = $instance AND time >= $before AND time < $end AND role IS NOT NULL
           ORDER BY time""",
        about.parameters | {"before": begin - _BEFORE},
    )  # fmt: skip
    if not rows:
        return None
    now: Counter[tuple[str, str | None, str | None]] = Counter()
    of_role: Counter[str] = Counter()
    peaks: dict[str, RolePeak] = {}

    def note(at: datetime) -> None:
        """Compare with the peaks once a sample is complete, or the period begins."""
        for role, number in of_role.items():
            if number > (peaks[role].sessions if role in peaks else 0):
                when = max(at.replace(tzinfo=UTC), about.begin)
                peaks[role] = RolePeak(role=role, sessions=number, at=when)

    last = begin
    for row in rows:
        if row["time"] != last:
            if row["time"] > begin:
                note(last)
            last = row["time"]
        key = (row["role"], row["database"], row["state"])
        number = row["sessions"] or 0
        of_role[row["role"]] += number - now[key]
        now[key] = number
    note(last)
    return sorted(peaks.values(), key=lambda one: (-one.sessions, one.role))
