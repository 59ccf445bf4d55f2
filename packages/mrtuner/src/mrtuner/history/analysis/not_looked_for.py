"""What was not looked for in a period: nothing of that kind found means nothing there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from mrtuner.history.analysis.coverage import Recorded, recorded, seconds_of
from mrtuner.history.analysis.gaps import HistoryGap, gaps, gaps_of, longest_pause, resets_of
from mrtuner.history.analysis.incidents import searched, without_usual
from mrtuner.history.analysis.incidents.deadlocks import LOG, in_log
from mrtuner.history.analysis.incidents.samples import divided, span_of
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, as_sampled
from mrtuner.history.reading import History
from mrtuner.history.recording.source import Kind
from mrtuner.units import pretty_duration
from mrtuner.wording import enumerated

#: What is not found if a source was not recorded.
_FOUND_IN: Final = {
    "sessions": "queues for locks",
    "connections": "storms of connections",
    "statements": "slower statements",
    "checkpoints": "checkpoints before their time",
    "databases": "deadlocks",
}
_MINUTE: Final = timedelta(minutes=1)
_MOST_GAPS: Final = 3


def not_looked_for(history: History, about: HistoryPeriod) -> tuple[str, ...]:
    """Return what `incidents` could not look for, a sentence each; empty if that is nothing."""
    return (*_not_looked_for(history, about), *without_usual(history, about))


def _not_looked_for(history: History, about: HistoryPeriod) -> Iterator[str]:
    found = recorded(history, about)
    if found is None:
        yield "nothing was recorded in this period"
        return
    within = searched(about)
    if within != about:
        yield (
            f"{enumerated(_FOUND_IN.values())} are looked for in the last day of a period: not "
            f"before {_clock(within.begin)}"
        )
    missing = gaps(history, about)
    yield from _silent(about, found, missing)
    for name, what in _FOUND_IN.items():
        if not history.has(name) or seconds_of(history, within, name) is None:
            yield f"{name} were not recorded: {what} are not looked for"
        elif not as_sampled(history, name, within):
            kept = pretty_duration(history.source(name).keep)
            yield f"{name} older than {kept} are kept as summaries: {what} are not looked for"
        elif times := list(_alone(history, name, within, found, missing)):
            yield f"{name} were not recorded {_few(times)}: {what} are not looked for then"
    yield from _uncompared(history, within)
    if _hidden(history, within):
        yield (
            "the recorder's role may not see what others do: queues for locks are not looked for; "
            "GRANT pg_read_all_stats"
        )
    if _uncounted(history, within):
        yield (
            "a standby counts attempts at restartpoints: checkpoints before their time are not "
            "looked for"
        )
    if not history.has(LOG) or seconds_of(history, within, LOG) is None:
        yield "the server's log was not read: sessions that were refused are not looked for"
    elif times := list(_unread(history, within, found, missing)):
        yield (
            f"the server's log was not read {_few(times)}: sessions that were refused are not "
            "looked for then"
        )


def _unread(
    history: History, within: HistoryPeriod, found: Recorded, missing: Sequence[HistoryGap]
) -> Iterator[str]:
    """Yield the times of which the log was not read, or not completely, though others were."""
    if not as_sampled(history, LOG, within):
        return
    rows = history.rows(
        f"SELECT time, seconds, refused FROM {LOG} WHERE {IN_PERIOD} ORDER BY time",
        within.parameters, inside=True,
    )  # fmt: skip
    spans = [span_of(row) for row in rows if row["refused"] is None and row["seconds"] is not None]
    if rows:
        last = span_of(rows[-1])[1]
        if found.last - last > timedelta(seconds=longest_pause(history, LOG)):
            spans.append((last, found.last))
    for begin, end in spans:
        if not any(one.begin < end and begin < one.end for one in missing):
            yield _span(HistoryGap(begin=begin, end=end))


def _few(times: Sequence[str]) -> str:
    more = [f"{len(times) - _MOST_GAPS} more times"] if len(times) > _MOST_GAPS else []
    return enumerated([*times[:_MOST_GAPS], *more])


def _uncompared(history: History, within: HistoryPeriod) -> Iterator[str]:
    """Yield the times of which counters say nothing, since a restart reset them.

    Deadlocks are then looked for in the log.
    """
    lost = [
        (gap, what)
        for name, what in _FOUND_IN.items()
        if as_sampled(history, name, within) and history.source(name).of(Kind.COUNTER)
        for gap in resets_of(history, name, within)
        if name != "databases" or not in_log(history, within, gap)
    ]
    lost.sort(key=lambda one: one[0].begin)
    for near in divided(lost, timedelta(0), lambda one: (one[0].begin, one[0].end)):
        begin, end = near[0][0].begin, max(gap.end for gap, _ in near)
        what = enumerated(sorted({what for _, what in near}))
        when = _span(HistoryGap(begin=begin, end=end))
        yield (
            f"what was counted {when} is unknown, as the server started again or another one "
            f"answered: {what} are not looked for then"
        )


def _silent(about: HistoryPeriod, found: Recorded, missing: Sequence[HistoryGap]) -> Iterator[str]:
    """Yield the times without any sample: before the first, between two, after the last."""
    if found.first - about.begin > _MINUTE:
        yield f"nothing was recorded before {_clock(found.first)}"
    for gap in missing[:_MOST_GAPS]:
        yield f"nothing was recorded {_span(gap)}"
    if len(missing) > _MOST_GAPS:
        yield f"there are {len(missing) - _MOST_GAPS} more gaps"
    if about.end - found.last > _MINUTE:
        yield f"nothing was recorded after {_clock(found.last)}"


def _alone(
    history: History, source: str, within: HistoryPeriod, found: Recorded,
    missing: Sequence[HistoryGap],
) -> Iterator[str]:  # fmt: skip
    """Yield the times in which others were sampled, but not this source.

    Next to a time without any sample, a source may lack a pause more.
    """
    pause = timedelta(seconds=longest_pause(history, source))
    for gap in gaps_of(history, source, within, found):
        if not any(
            gap.begin <= (begin := max(one.begin, within.begin)) <= gap.begin + pause
            and begin <= one.end <= gap.end <= one.end + pause
            for one in missing
        ):
            yield _span(gap)


def _span(gap: HistoryGap) -> str:
    return f"from {_clock(gap.begin)} to {_clock(gap.end)}"


def _clock(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _hidden(history: History, about: HistoryPeriod) -> bool:
    """Whether what sessions do was hidden: then even the number of active ones is unknown."""
    if not as_sampled(history, "connections", about):
        return False
    row = history.row(
        """SELECT count(clients) AS known, count(active) AS seen FROM connections
           WHERE instance = $instance AND time >= $begin AND time < $end""",
        about.parameters, inside=True,
    )  # fmt: skip
    return bool(row["known"]) and not row["seen"]


def _uncounted(history: History, about: HistoryPeriod) -> bool:
    """Whether checkpoints were not counted at some time, though what they wrote was."""
    if not as_sampled(history, "checkpoints", about):
        return False
    row = history.row(
        f"""SELECT count(*) AS number FROM checkpoints
            WHERE {IN_PERIOD} AND write_ms IS NOT NULL AND requested IS NULL""",
        about.parameters, inside=True,
    )  # fmt: skip
    return bool(row["number"])
