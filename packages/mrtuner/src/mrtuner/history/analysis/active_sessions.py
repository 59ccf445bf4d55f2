"""Average active sessions of a period, by what they wait for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from mrtuner.described import Doc
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, as_sampled, minute_of
from mrtuner.history.reading import BEATS, History
from mrtuner.history.store.summaries import AT_WORK

_MINUTE: Final = timedelta(minutes=1)
#: The class of load of a session that waits for nothing.
CPU: Final = "CPU"
#: What a session waits for, with its class.
WAIT_EVENT: Final = f"coalesce(wait_type || ': ' || wait_event, '{CPU}')"


def session_statement(history: History) -> str:
    """SQL for the text of a session's statement: of sessions `s` and statement_texts `t`."""
    # Older recorders stored none.
    return "coalesce(t.text, s.statement)" if history.has("sessions", "statement") else "t.text"


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


def _parts(
    history: History, about: HistoryPeriod
) -> tuple[HistoryPeriod, tuple[HistoryPeriod, ...]]:
    """Divide a period into its whole minutes, and the parts of minutes at its ends.

    Minutes are summaries. Where nothing else is kept, those at the ends count in full.
    """
    first, last = minute_of(about.begin), minute_of(about.end)
    if not as_sampled(history, "sessions", about):
        return replace(about, begin=first), ()
    if first < about.begin:
        first += _MINUTE
    if first > last:
        return replace(about, begin=last, end=last), (about,)
    ends = replace(about, end=first), replace(about, begin=last)
    return replace(about, begin=first, end=last), tuple(one for one in ends if one.seconds)


def beats_by_minute(history: History, about: HistoryPeriod) -> dict[datetime, int]:
    """Return how often sessions were sampled in each minute."""
    whole, ends = _parts(history, about)
    rows = history.rows(
        f"""SELECT time AS minute, sum(session_samples) AS beats FROM samples_by_minute
            WHERE {IN_PERIOD} AND session_samples > 0 GROUP BY 1""",
        whole.parameters, inside=True,
    )  # fmt: skip
    found = {row["minute"].replace(tzinfo=UTC): row["beats"] for row in rows}
    for one in ends:
        row = history.row(
            f"SELECT count(*) AS beats FROM samples WHERE {IN_PERIOD} AND {BEATS}",
            one.parameters, inside=True,
        )  # fmt: skip
        if row["beats"]:
            found[minute_of(one.begin)] = row["beats"]
    return found


def at_work(
    history: History, about: HistoryPeriod, what: str
) -> Iterator[tuple[datetime, str, float]]:
    """Yield by minute, and by `what` in SQL, how many sessions at work were seen in all samples."""
    whole, ends = _parts(history, about)
    for row in history.rows(
        f"""SELECT time AS minute, {what} AS what, sum(samples) AS samples
            FROM sessions_by_minute WHERE {IN_PERIOD} AND {AT_WORK} GROUP BY 1, 2""",
        whole.parameters, inside=True,
    ):  # fmt: skip
        yield row["minute"].replace(tzinfo=UTC), row["what"], row["samples"]
    for one in ends:
        for row in history.rows(
            f"""SELECT {what} AS what, count(*) AS samples
                FROM sessions WHERE {IN_PERIOD} AND {AT_WORK} GROUP BY 1""",
            one.parameters, inside=True,
        ):  # fmt: skip
            yield minute_of(one.begin), row["what"], row["samples"]


def load_by_step(history: History, about: HistoryPeriod, seconds: float) -> tuple[HistoryLoad, ...]:
    """Average active sessions by wait class, in steps of whole minutes."""
    minutes = max(1, round(seconds / 60))
    beats = beats_by_minute(history, about)
    first = minute_of(about.begin)
    count = -(-(about.end - first) // timedelta(minutes=minutes))
    sampled = [0] * count
    classes: list[dict[str, float]] = [{} for _ in range(count)]
    for minute, times in beats.items():
        sampled[(minute - first) // timedelta(minutes=minutes)] += times
    for minute, name, samples in at_work(history, about, f"coalesce(wait_type, '{CPU}')"):
        of = classes[(minute - first) // timedelta(minutes=minutes)]
        of[name] = of.get(name, 0) + samples
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
    """The minute with the most active sessions, and how many; None if none was active.

    Less than half of a minute counts only if no whole one has any: a second is no busy minute.
    """
    whole, ends = _parts(history, about)
    rows = history.rows(
        f"""SELECT w.minute, CAST(w.samples AS DOUBLE) / b.beats AS load
            FROM (SELECT time AS minute, sum(samples) AS samples FROM sessions_at_work_by_minute
                  WHERE {IN_PERIOD} GROUP BY 1) AS w
            JOIN (SELECT time AS minute, sum(session_samples) AS beats FROM samples_by_minute
                  WHERE {IN_PERIOD} AND session_samples > 0 GROUP BY 1) AS b ON b.minute = w.minute
            ORDER BY load DESC, w.minute DESC LIMIT 1""",
        whole.parameters, inside=True,
    )  # fmt: skip
    found = [(row["minute"].replace(tzinfo=UTC), row["load"]) for row in rows]
    whole_found = bool(found)
    for one in ends:
        seen = sum(samples for *_, samples in at_work(history, one, "1"))
        if seen and (one.seconds >= _MINUTE.seconds / 2 or not whole_found):
            found.append((at := minute_of(one.begin), seen / beats_by_minute(history, one)[at]))
    return max(found, key=lambda one: (one[1], one[0]), default=None)
