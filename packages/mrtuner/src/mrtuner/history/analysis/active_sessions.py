"""Average active sessions of a period, by what they wait for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from mrtuner.described import Doc
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, from_minute, minute_of
from mrtuner.history.reading import History
from mrtuner.history.store.summaries import AT_WORK

#: The class of load of a session that waits for nothing.
CPU: Final = "CPU"
#: What a session waits for, with its class.
WAIT_EVENT: Final = f"coalesce(wait_type || ': ' || wait_event, '{CPU}')"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLoad:
    """Average active sessions of one step."""

    at: Annotated[datetime, Doc("when the step begins, UTC")]
    classes: Annotated[
        dict[str, float] | None,
        Doc("sessions by wait class, CPU for those not waiting; null without samples"),
    ]

    @property
    def total(self) -> float | None:
        """The sum over all classes; None if nothing was sampled."""
        return None if self.classes is None else sum(self.classes.values())


def beats_by_minute(history: History, about: HistoryPeriod) -> dict[datetime, int]:
    """Return how often sessions were sampled in each minute; the first minute counts in full."""
    rows = history.rows(
        f"""SELECT time AS minute, sum(session_samples) AS beats FROM samples_by_minute
            WHERE {IN_PERIOD} AND session_samples > 0 GROUP BY 1""",
        from_minute(about), inside=True,
    )  # fmt: skip
    return {row["minute"].replace(tzinfo=UTC): row["beats"] for row in rows}


def load_by_step(history: History, about: HistoryPeriod, seconds: float) -> tuple[HistoryLoad, ...]:
    """Average active sessions by wait class, in steps of whole minutes."""
    minutes = max(1, round(seconds / 60))
    beats = beats_by_minute(history, about)
    rows = history.rows(
        f"""SELECT time AS minute, coalesce(wait_type, '{CPU}') AS class, sum(samples) AS samples
            FROM sessions_by_minute WHERE {IN_PERIOD} AND {AT_WORK} GROUP BY 1, 2""",
        from_minute(about), inside=True,
    )  # fmt: skip
    first = minute_of(about.begin)
    count = -(-(about.end - first) // timedelta(minutes=minutes))
    sampled = [0] * count
    classes: list[dict[str, float]] = [{} for _ in range(count)]
    for minute, times in beats.items():
        sampled[(minute - first) // timedelta(minutes=minutes)] += times
    for row in rows:
        of = classes[(row["minute"].replace(tzinfo=UTC) - first) // timedelta(minutes=minutes)]
        of[row["class"]] = of.get(row["class"], 0) + row["samples"]
    steps = (
        HistoryLoad(
            at=first + n * timedelta(minutes=minutes),
            classes={name: seen / sampled[n] for name, seen in classes[n].items()}
            if sampled[n] else None,
        )
        for n in range(count)
    )  # fmt: skip
    return tuple(steps)


def busiest_minute(history: History, about: HistoryPeriod) -> tuple[datetime, float] | None:
    """The minute with the most active sessions, and how many; None if none was active."""
    rows = history.rows(
        f"""SELECT w.minute, CAST(w.samples AS DOUBLE) / b.beats AS load
            FROM (SELECT time AS minute, sum(samples) AS samples FROM sessions_at_work_by_minute
                  WHERE {IN_PERIOD} GROUP BY 1) AS w
            JOIN (SELECT time AS minute, sum(session_samples) AS beats FROM samples_by_minute
                  WHERE {IN_PERIOD} AND session_samples > 0 GROUP BY 1) AS b ON b.minute = w.minute
            ORDER BY load DESC, w.minute DESC LIMIT 1""",
        from_minute(about), inside=True,
    )  # fmt: skip
    return (rows[0]["minute"].replace(tzinfo=UTC), rows[0]["load"]) if rows else None
