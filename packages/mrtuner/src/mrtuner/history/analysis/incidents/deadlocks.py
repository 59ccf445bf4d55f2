"""Deadlocks, as the databases counted them, and whose they were, as far as samples saw them.

A crash resets what was counted since the last sample, which the log still tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mrtuner.history.analysis.gaps import HistoryGap, resets_of
from mrtuner.history.analysis.incidents.model import Incident
from mrtuner.history.analysis.incidents.samples import LATE, grown_together, span_of
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, as_sampled
from mrtuner.history.reading import History
from mrtuner.wording import as_name, enumerated, first_few, plural_was

#: Its rows come late and cover gaps: a log is read from where the reader was.
LOG: Final = "log_errors"


def deadlocks(history: History, about: HistoryPeriod) -> Iterator[Incident]:
    if not history.has("databases"):
        return
    for rows in (*_counted(history, about), *_counted_in_log(history, about)):
        names = sorted({as_name(row["database"]) for row in rows if row.get("database")})
        count = int(sum(row["deadlocks"] for row in rows))
        begin, end = span_of(rows[0])[0], span_of(rows[-1])[1]
        seen, who = _seen(history, replace(about, begin=begin, end=end))
        if count == 1 and seen:
            begin, end = seen[0], seen[-1]
        if begin >= about.end or end < about.begin:
            continue
        where = f"in {first_few(names, 3)}" if names else "(counted in the log)"
        of = f" between sessions of {enumerated(who[:3])}" if who else ""
        yield Incident(
            kind="deadlocks", begin=begin, end=end, screen="connections",
            text=f"{plural_was(count, 'deadlock')} resolved {where}{of}",
        )  # fmt: skip


def _counted(
    history: History, about: HistoryPeriod, source: str = "databases"
) -> Iterator[list[dict[str, Any]]]:
    # They are counted at the next sample, so one of the period's end is counted after it.
    later = about.end + timedelta(seconds=LATE * history.source(source).interval)
    for found in grown_together(history, replace(about, end=later), source, "deadlocks"):
        if rows := [row for row in found if span_of(row)[0] < about.end]:
            yield rows


def _counted_in_log(history: History, about: HistoryPeriod) -> Iterator[list[dict[str, Any]]]:
    """Yield those of times in which the databases' counters were reset."""
    if not as_sampled(history, LOG, about):
        return
    reset = [(one.begin, one.end) for one in resets_of(history, "databases", about)]
    for found in _counted(history, about, LOG) if reset else ():
        if rows := [row for row in found if _mostly_in(span_of(row), *reset)]:
            yield rows


def _mostly_in(one: tuple[datetime, datetime], *others: tuple[datetime, datetime]) -> bool:
    """Whether more than half of one time is in the others, which do not overlap."""
    both = (min(one[1], other[1]) - max(one[0], other[0]) for other in others)
    return 2 * sum((max(each, timedelta(0)) for each in both), timedelta(0)) > one[1] - one[0]


def in_log(history: History, about: HistoryPeriod, gap: HistoryGap) -> bool:
    """Whether the log was read in a time in which the databases' counters were reset."""
    if not as_sampled(history, LOG, about):
        return False
    later = gap.end + timedelta(seconds=LATE * history.source(LOG).interval)
    rows = history.rows(
        f"SELECT time, seconds FROM {LOG} WHERE {IN_PERIOD} AND errors IS NOT NULL",
        replace(about, begin=gap.begin, end=later).parameters, inside=True,
    )  # fmt: skip
    return _mostly_in((gap.begin, gap.end), *map(span_of, rows))


def _seen(history: History, about: HistoryPeriod) -> tuple[list[datetime], list[str]]:
    """Return when sessions were seen to wait for each other, and who they were.

    The server ends that after deadlock_timeout, so few samples see it.
    """
    if not as_sampled(history, "sessions", about):
        return [], []
    samples: dict[datetime, list[Mapping[str, Any]]] = defaultdict(list)
    for row in history.rows(
        f"""SELECT time, pid, application, role, blocked_by FROM sessions
            WHERE {IN_PERIOD} AND blocked_by IS NOT NULL ORDER BY time, pid""",
        about.parameters, inside=True,
    ):  # fmt: skip
        samples[row["time"].replace(tzinfo=UTC)].append(row)
    times, who = [], []
    for at, rows in samples.items():
        waits = {str(row["pid"]): row["blocked_by"].split(",") for row in rows}
        stuck = [row for row in rows if _waits_for_itself(str(row["pid"]), waits)]
        times += [at] * bool(stuck)
        who += [as_name(name) for row in stuck if (name := row["application"] or row["role"])]
    return times, sorted(set(who))


def _waits_for_itself(pid: str, waits: Mapping[str, list[str]]) -> bool:
    reached: set[str] = set()
    ahead = list(waits[pid])
    while ahead and pid not in reached:
        one = ahead.pop()
        if one not in reached:
            reached.add(one)
            ahead += waits.get(one, [])
    return pid in reached
