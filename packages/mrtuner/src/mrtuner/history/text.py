"""What happened to a server, as text for a terminal: lines, one at a time; no I/O.

They use only the documents, so they can be recreated from the JSON.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from mrtuner.history.recording.rounds import PACE
from mrtuner.text_tables import GAP, aligned
from mrtuner.units import pretty_bytes, pretty_duration
from mrtuner.wording import cut, first_few, plural

if TYPE_CHECKING:
    from mrtuner.history.analysis.active_sessions import HistoryLoad
    from mrtuner.history.analysis.host_work import HistoryFigure, HistoryHost
    from mrtuner.history.analysis.incidents import Incident
    from mrtuner.history.analysis.period import HistoryPeriod
    from mrtuner.history.analysis.statements import HistoryStatement
    from mrtuner.history.document import (
        HistoryCheck,
        HistoryComparison,
        HistoryFetched,
        HistoryLag,
        HistoryLog,
        HistoryMinute,
        HistorySize,
        HistoryStatus,
        HistorySummary,
    )

#: Title, cells, and the turn in which the column is left out if there is no room (0: never).
Column = tuple[str, list[str], int]

_CPU: Final = "CPU"
#: A log is read as often [s]; its last part comes with the next sample.
_LOG_PACE: Final = 60.0
#: Letters of wait classes in the chart. Source: pg_stat_activity.wait_event_type.
_LETTERS: Final = {
    _CPU: "C", "IO": "I", "Lock": "L", "LWLock": "W", "BufferPin": "B", "Client": "c",
    "Buffer": "B",  # so called since 19, and not only pins
    "IPC": "P", "Timeout": "T", "Extension": "E", "InjectionPoint": "J",
}  # fmt: skip
_TALL: Final = 8
#: Changes of the recorder's sampling rate that are listed.
_FEW: Final = 3
#: Incidents that are told.
_INCIDENTS: Final = 20
#: Kinds of incidents that happened to the server as a whole, told first.
_EVENTS: Final = frozenset({"crash", "event"})
#: Width of the chart in columns; the steps of a short period are drawn wider.
_WIDE: Final = 60
_MOST_TEXT: Final = 60
#: If a statement has less room than this, less important columns are left out.
_LEAST_TEXT: Final = 36


def lines(told: HistorySummary, width: int) -> Iterator[str]:
    """Yield the whole answer: what went wrong, load, statements, checkpoints, changes, gaps."""
    yield from _head(told)
    yield from _incidents(told, width)
    yield ""
    yield from _chart(told)
    yield from _statements("Statements by time", told.statements, width)
    yield from _checkpoints(told)
    yield from _log(told.log, told.period)
    yield from _host(told.host)
    yield from _slowest(told.slowest, width)
    yield from _changes(told)
    yield from _list("Not recorded", (f"{_when(one.begin)} to {_when(one.end)}"
                                      for one in told.gaps))  # fmt: skip
    yield from _list("Damaged files that were left out", told.damaged)


def _incidents(told: HistorySummary, width: int) -> Iterator[str]:
    """Yield what could not be looked for, then what went wrong, or that nothing did."""
    yield ""
    lacking = told.not_looked_for
    for why in lacking:
        # Some end with a remedy, which is a sentence.
        said = f"{why[0].upper()}{why[1:].removesuffix('.')}."
        yield from wrap(said, width, subsequent_indent=GAP)
    if not told.incidents:
        yield "Nothing went wrong" + (" in what was looked at." if lacking else ".")
    begin, end = _ends(told.period)
    for one in _weightiest(told.incidents):
        first, last = _when(one.begin), _when(one.end)
        moment = first == last
        if begin[:10] == end[:10]:
            first, last = first[11:], last[11:]
        elif first[:10] == last[:10]:
            last = last[11:]
        when = first if moment else f"{first} to {last}"
        yield from wrap(f"{when}: {one.text}.", width, subsequent_indent=GAP)
    if len(told.incidents) > _INCIDENTS:
        yield f"{len(told.incidents) - _INCIDENTS} more are in --json."


def _weightiest(incidents: Sequence[Incident]) -> Iterator[Incident]:
    """Yield as many incidents as are told, in their order: events, then others by time.

    Of events, those that last come after the others: a network that breaks again and again, so that
    the server is lost, hides no crash.
    """
    by_weight = sorted(
        range(len(incidents)),
        key=lambda n: (incidents[n].kind not in _EVENTS, incidents[n].end > incidents[n].begin),
    )
    for number in sorted(by_weight[:_INCIDENTS]):
        yield incidents[number]


def _when(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _ends(period: HistoryPeriod) -> tuple[str, str]:
    return _when(period.begin), _when(period.end)


def _head(told: HistorySummary) -> Iterator[str]:
    period = told.period
    begin, end = _ends(period)
    yield f"{period.instance}: {begin} to {end} UTC"
    load = told.average_load
    if load is None:
        what = "nothing was" if told.host is None else "sessions were not"
        yield f"{what} sampled in this period"
        return
    cpus = f" on {plural(told.cpus, 'CPU')}" if told.cpus else ""
    yield f"{load:.2f} active sessions on average{cpus}{_part(told)}"


def _part(told: HistorySummary) -> str:
    return "" if told.sampled >= 0.99 else f", {told.sampled:.0%} of the time sampled"


def _chart(told: HistorySummary) -> Iterator[str]:
    """Yield load by wait class as columns of letters; a line of dashes shows the CPUs."""
    steps = told.load
    highest = max((sum((step.classes or {}).values()) for step in steps), default=0.0)
    if not highest:
        return
    top = max(highest, float(told.cpus or 0))
    wider = max(1, _WIDE // len(steps))
    columns = [_column(step.classes, top) for step in steps for _ in range(wider)]
    cpu_row = round((told.cpus or 0) / top * _TALL)
    for row in range(_TALL, 0, -1):
        figure = f"{top * row / _TALL:6.1f}" if row in {_TALL, _TALL // 2} else " " * 6
        blank = "-" if row == cpu_row else " "
        yield f"{figure} | " + "".join(column[row - 1] or blank for column in columns).rstrip()
    yield f"{'':6} +-" + "-" * len(columns)
    begin, end = _labels(told.period)
    yield f"{'':9}{begin}{end.rjust(max(len(columns) - len(begin), len(end) + 1))}"
    yield from _legend(steps, told.cpus)


def _labels(period: HistoryPeriod) -> tuple[str, str]:
    """Return the begin and end of a period as times, with their dates if these differ."""
    begin, end = _ends(period)
    first = 11 if begin[:10] == end[:10] else 5
    return begin[first:16], end[first:16]


def _column(classes: Mapping[str, float] | None, top: float) -> list[str]:
    """Return the letters of one step from the bottom up; a dot where nothing was sampled."""
    if classes is None:
        return [".", *[""] * (_TALL - 1)]
    letters: list[str] = []
    reached = 0.0
    for name in sorted(classes, key=_order):
        reached += classes[name]
        letters += [_LETTERS.get(name, "?")] * (round(reached / top * _TALL) - len(letters))
    return letters[:_TALL] + [""] * (_TALL - len(letters))


def _order(name: str) -> int:
    names = list(_LETTERS)
    return names.index(name) if name in names else len(names)


def _legend(steps: Sequence[HistoryLoad], cpus: int | None) -> Iterator[str]:
    sums: dict[str, float] = defaultdict(float)
    known = [step.classes for step in steps if step.classes is not None]
    for classes in known:
        for name, share in classes.items():
            sums[name] += share
    yield ""
    rows = [
        (_LETTERS.get(name, "?"), name, f"{sums[name] / len(known):.2f}")
        for name in sorted(sums, key=_order)
    ]
    yield from aligned(
        [("", "active sessions, by what they wait for", "average"), *rows], right={2}
    )
    if cpus:
        yield f"-  the server's {plural(cpus, 'CPU')}"


#: Columns of statements: title, function that writes a cell, and turn (see `Column`).
_WORK: Final[tuple[tuple[str, Callable[[HistoryStatement], str], int], ...]] = (
    ("calls", lambda work: f"{work.calls:,}", 0),
    ("ms/call", lambda work: f"{work.seconds * 1000 / max(work.calls, 1):.3g}", 0),
    ("rows", lambda work: f"{work.rows:,}", 1),
    ("read", lambda work: f"{work.blocks_read:,}", 3),
    ("temp", lambda work: f"{work.temp_blocks:,}", 2),
)


def _statements(title: str, works: Sequence[HistoryStatement], width: int) -> Iterator[str]:
    if not works:
        return
    yield ""
    yield title
    total = sum(work.seconds for work in works) or 1.0
    columns: list[Column] = [
        ("time", [pretty_duration(work.seconds) for work in works], 0),
        ("share", [f"{work.seconds / total:.0%}" for work in works], 0),
        *((name, [write(work) for work in works], turn) for name, write, turn in _WORK),
    ]
    yield from _with_texts(columns, works, width)


def _with_texts(
    columns: list[Column], works: Sequence[HistoryStatement], width: int
) -> Iterator[str]:
    """Yield a table with the statements' texts last; without room, columns are left out in turn."""
    for turn in sorted({turn for _, _, turn in columns} - {0}):
        if _room(columns, width) < _LEAST_TEXT:
            columns = [column for column in columns if column[2] != turn]
    texts = [_short(work, _room(columns, width)) for work in works]
    header = (*(name for name, _, _ in columns), "statement")
    rows = zip(*(cells for _, cells, _ in columns), texts, strict=True)
    yield from aligned([header, *rows], right=set(range(len(columns))))


def _room(columns: Iterable[Column], width: int) -> int:
    return width - sum(max(map(len, [name, *cells])) + len(GAP) for name, cells, _ in columns)


def _short(work: HistoryStatement, room: int) -> str:
    text = work.text or f"(text unknown, {work.query_id})"
    return cut(text, max(min(room, _MOST_TEXT), _LEAST_TEXT // 2))


def _checkpoints(told: HistorySummary) -> Iterator[str]:
    about = told.checkpoints
    if about.timed is None and about.wal_bytes is None:
        return
    yield ""
    yield "Checkpoints and WAL"
    rows = [
        ("checkpoints by time", _or_unknown(about.timed, "{:,}".format)),
        ("checkpoints by WAL or command", _or_unknown(about.requested, "{:,}".format)),
        ("time writing buffers", _or_unknown(about.write_seconds, pretty_duration)),
        ("WAL written", _or_unknown(about.wal_bytes, pretty_bytes)),
        (
            "WAL per second, busiest minute",
            _or_unknown(about.peak_wal, lambda n: pretty_bytes(round(n))),
        ),
    ]
    yield from aligned(rows, right={1})


#: Figures of a host: title, the figure, and function that writes a value.
_HOST: Final[
    tuple[tuple[str, Callable[[HistoryHost], HistoryFigure | None], Callable[[float], str]], ...]
] = (
    ("CPU used", lambda host: host.cpu, lambda one: f"{one:.0%}"),
    ("CPU idle, waiting for disk", lambda host: host.iowait, lambda one: f"{one:.0%}"),
    ("CPU taken by the hypervisor", lambda host: host.steal, lambda one: f"{one:.0%}"),
    ("throttled by a CPU quota", lambda host: host.throttled, lambda one: f"{one:.0%}"),
    ("reads per second", lambda host: host.reads, lambda one: f"{one:,.0f}"),
    ("time per read", lambda host: host.read_seconds, lambda one: f"{1000 * one:.3g} ms"),
    ("writes per second", lambda host: host.writes, lambda one: f"{one:,.0f}"),
    ("time per write", lambda host: host.write_seconds, lambda one: f"{1000 * one:.3g} ms"),
)


def _log(log: HistoryLog | None, about: HistoryPeriod) -> Iterator[str]:
    if log is None:
        return
    unread = about.seconds - log.seconds
    yield ""
    yield "The server's log" + (
        f", of which {pretty_duration(unread)} were not read" if unread > _LOG_PACE else ""
    )
    rows = (
        ("PANIC", log.panics), ("FATAL", log.fatals), ("ERROR", log.errors),
        ("WARNING", log.warnings), ("of these, deadlocks", log.deadlocks),
        ("of these, sessions refused", log.refused),
        ("of these, statements cancelled", log.cancelled),
    )  # fmt: skip
    yield from aligned([(name, f"{number:,}") for name, number in rows], right={1})


def _host(host: HistoryHost | None) -> Iterator[str]:
    if host is None:
        return
    yield ""
    rows = [
        (title, write(figure.average), write(figure.highest))
        for title, of, write in _HOST
        if (figure := of(host)) is not None
    ]
    yield from aligned([("Host", "average", "highest"), *rows], right={1, 2})
    if host.least_memory is not None:
        yield f"Lowest available memory: {pretty_bytes(host.least_memory)}"


def _or_unknown(value: Any, write: Any) -> str:
    return "unknown" if value is None else str(write(value))


def _slowest(minute: HistoryMinute | None, width: int) -> Iterator[str]:
    if minute is None:
        return
    yield ""
    yield f"Busiest minute: {_when(minute.at)}, {minute.load:.2f} active sessions"
    for wait in minute.waits:
        yield f"  {wait.sessions:6.2f}  {wait.event}"
    for work in minute.statements:
        what = f"  {work.seconds:6.2f} s in {work.calls:,} calls: "
        yield what + _short(work, width - len(what))


def _changes(told: HistorySummary) -> Iterator[str]:
    """Yield the changes; of many changes of the recorder's sampling rate, only the number."""
    paces = sum(one.what == PACE for one in told.changes)
    shown = [one for one in told.changes if paces <= _FEW or one.what != PACE]
    texts = [f"{_when(one.at)}  {one.what}: {one.detail}" for one in shown]
    if paces > _FEW:
        texts.append(f"{paces} times the recorder changed how often it samples a source")
    yield from _list("Changes", texts)


def _list(title: str, items: Iterable[str]) -> Iterator[str]:
    for number, item in enumerate(items):
        if number == 0:
            yield ""
            yield title
        yield f"  {item}"


# Two periods.


def comparison_lines(told: HistoryComparison, width: int) -> Iterator[str]:
    """Yield two periods side by side, and the statements that changed most."""
    before, after = told.before, told.after
    for name, one in (("before", before), ("after", after)):
        period = one.period
        yield f"{name:7} {_when(period.begin)} to {_when(period.end)} UTC{_part(one)}"
    yield ""
    yield from aligned(
        [("", "before", "after", "ratio"), *_figures(before, after)], right={1, 2, 3}
    )
    changed = told.statements
    if changed:
        yield ""
        yield "Statements by change of load [sessions]"
        columns: list[Column] = [
            ("load", [f"{one.more_load:+.3f}" for one in changed], 0),
            ("calls before", [_calls(one.before) for one in changed], 1),
            ("after", [_calls(one.after) for one in changed], 1),
            ("ms/call before", [_each(one.before) for one in changed], 0),
            ("after", [_each(one.after) for one in changed], 0),
        ]
        yield from _with_texts(
            columns, [run for one in changed if (run := one.after or one.before)], width
        )


def _figures(before: HistorySummary, after: HistorySummary) -> Iterator[tuple[str, str, str, str]]:
    yield _pair("active sessions", before.average_load, after.average_load, "{:.2f}")
    for title, of, write in _HOST:
        figures = [of(one.host) if one.host else None for one in (before, after)]
        if any(figures):
            averages = [None if figure is None else figure.average for figure in figures]
            shown = [_or_unknown(average, write) for average in averages]
            yield (title, shown[0], shown[1], _ratio(*averages))
    first, then = before.checkpoints, after.checkpoints
    yield _pair("checkpoints by time", first.timed, then.timed, "{:,}")
    yield _pair("checkpoints by WAL or command", first.requested, then.requested, "{:,}")
    peaks = (first.peak_wal, then.peak_wal)
    shown = [_or_unknown(peak, lambda n: pretty_bytes(round(n))) for peak in peaks]
    yield ("WAL per second, busiest minute", shown[0], shown[1], _ratio(*peaks))


def _pair(
    title: str, before: float | None, after: float | None, form: str
) -> tuple[str, str, str, str]:
    cells = [_or_unknown(value, form.format) for value in (before, after)]
    return (title, cells[0], cells[1], _ratio(before, after))


def _ratio(before: float | None, after: float | None) -> str:
    return f"{after / before:.2f}" if before and after is not None else ""


def _calls(work: HistoryStatement | None) -> str:
    return f"{work.calls:,}" if work else "-"


def _each(work: HistoryStatement | None) -> str:
    return f"{work.seconds * 1000 / work.calls:.3g}" if work and work.calls else "-"


# What a store holds.


def size_lines(told: HistorySize) -> Iterator[str]:
    """Yield the size of a store and of each view, and the most that the store may take."""
    most = _or_unknown(told.at_most, pretty_bytes)
    size = pretty_bytes(told.bytes)
    rough = ", estimated from the first hours" if told.estimated else ""
    yield f"{told.directory}: {size}; at most {most} with today's retention{rough}"
    yield ""
    header = ("view", "size", "files", "rows", "in SQLite", "a day", "oldest")
    rows = [
        (
            one.view, pretty_bytes(one.bytes), f"{one.files:,}", f"{one.rows:,}",
            f"{one.recent:,}", _or_unknown(one.per_day, pretty_bytes),
            _when(one.first) if one.first else "",
        )
        for one in told.views
        if one.files or one.recent or one.per_day
    ]  # fmt: skip
    yield from aligned([header, *rows], right=set(range(1, 6)))


def check_lines(told: HistoryCheck) -> Iterator[str]:
    yield f"{plural(told.files, 'file')} with {told.rows:,} rows were read"
    yield from _list("Problems", told.problems)
    if not told.problems:
        yield "All files are intact."


def fetched_lines(told: HistoryFetched) -> Iterator[str]:
    files, size = plural(told.files, "file"), pretty_bytes(told.bytes)
    yield f"{told.directory}: {files} ({size}) of {plural(told.writers, 'recorder')} fetched"


def status_lines(told: HistoryStatus) -> Iterator[str]:
    """Yield how far behind each source is, late and unreadable ones first.

    Of several instances, yield a line for each, then each problem with the instances it affects.
    """
    state = "a recorder is running" if told.recording else "no recorder is running"
    yield f"{told.directory}: {state}"
    yield ""
    sources = told.sources
    if len({one.instance for one in sources}) > 1:
        yield from _status_of_instances(sources)
    else:
        yield from _status_of_sources(sources)
    yield from _cost(sources)
    hints = dict.fromkeys(one.hint for one in sources if one.hint)
    yield from _list("What would help", hints)


def _status_of_sources(sources: Iterable[HistoryLag]) -> Iterator[str]:
    rows = [
        (one.instance, one.source, _ago(one.lag), _share(one.cost), _state(one) or "ok")
        for one in sorted(sources, key=lambda one: (not one.late, one.why is None))
    ]
    yield from aligned([("instance", "source", "last sample", "cost", ""), *rows], right={3})


def _status_of_instances(sources: Iterable[HistoryLag]) -> Iterator[str]:
    of: dict[str, list[HistoryLag]] = defaultdict(list)
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in sources:
        of[one.instance].append(one)
        if state := _state(one):
            reasons[one.source, state].append(one.instance)
    rows = [
        (
            name,
            _ago(min((one.lag for one in its if one.lag is not None), default=None)),
            _share(sum(one.cost or 0.0 for one in its) or None),
            f"{sum(_state(one) is None for one in its)}",
            f"{sum(one.late for one in its) or ''}",
            f"{sum(one.why is not None and not one.late for one in its) or ''}",
        )
        for name, its in of.items()
    ]
    header = ("instance", "last sample", "cost", "sources ok", "late", "not read")
    yield from aligned([header, *rows], right=set(range(2, 6)))
    yield from _list("Late, or not read", (
        f"{source}: {state} ({plural(len(names), 'instance')}: {first_few(names, 3)})"
        for (source, state), names in reasons.items()
    ))  # fmt: skip


def _ago(lag: float | None) -> str:
    return "never" if lag is None else f"{pretty_duration(lag)} ago"


def _share(cost: float | None) -> str:
    return "" if cost is None else f"{cost:.3%}"


def _state(one: HistoryLag) -> str | None:
    return one.why or ("late" if one.late else None)


def _cost(sources: Iterable[HistoryLag]) -> Iterator[str]:
    """Yield the share of a session's time that sampling takes, on the instance with the most."""
    taken: dict[str, float] = defaultdict(float)
    for one in sources:
        taken[one.instance] += one.cost or 0.0
    most = max(taken, key=lambda name: taken[name], default=None)
    if most is not None and taken[most]:
        among = f", the most of {len(taken)} instances" if len(taken) > 1 else ""
        yield ""
        yield f"Sampling {most} takes {taken[most]:.2%} of one session's time{among}."


def row_lines(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    cells = [tuple("" if value is None else str(value) for value in row) for row in rows]
    yield from aligned([columns, *cells])
    yield f"({plural(len(cells), 'row')})"
