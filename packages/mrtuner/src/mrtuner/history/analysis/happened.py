"""What happened in a period: for `mrtuner history show` and `compare`.

The queries use only SQL that other engines understand as well. A period that begins before the
oldest rows kept as sampled is answered from their summaries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from mrtuner.documents import convert
from mrtuner.history.analysis.active_sessions import (
    WAIT_EVENT,
    at_work,
    beats_by_minute,
    busiest_minute,
    load_by_step,
)
from mrtuner.history.analysis.changes import changes
from mrtuner.history.analysis.gaps import gaps
from mrtuner.history.analysis.host_work import host_work
from mrtuner.history.analysis.incidents import Incident
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, view_for
from mrtuner.history.analysis.statements import statements
from mrtuner.history.document import (
    HistoryChangeEntry,
    HistoryCheckpoints,
    HistoryLog,
    HistoryMinute,
    HistorySummary,
    HistoryWait,
)
from mrtuner.history.reading import History

#: Steps of a chart in a terminal.
_STEPS: Final = 60
_MINUTE: Final = timedelta(minutes=1)
#: What the sessions of the busiest minute waited for: so many are told.
_WAITS: Final = 5


def summary(
    history: History,
    about: HistoryPeriod,
    *,
    top: int = 10,
    cpus: int | None = None,
    incidents: Sequence[Incident] = (),
    not_looked_for: Sequence[str] = (),
) -> HistorySummary:
    """Return what happened in a period; what went wrong in it is found by others."""
    load = load_by_step(history, about, max(60.0, about.seconds / _STEPS))
    known = [step.total for step in load if step.total is not None]
    beats = beats_by_minute(history, about)
    host = host_work(history, about)
    return HistorySummary(
        period=about,
        cpus=cpus if cpus is not None or host is None else host.cpus,
        sampled=min(1.0, len(beats) * 60 / max(about.seconds, 60.0)),
        average_load=sum(known) / len(known) if known else None,
        load=load,
        statements=statements(history, about, top),
        checkpoints=checkpoints(history, about),
        host=host,
        slowest=slowest_minute(history, about),
        changes=convert(changes(history, about), tuple[HistoryChangeEntry, ...]),
        gaps=gaps(history, about),
        damaged=history.damaged,
        incidents=tuple(incidents),
        not_looked_for=tuple(not_looked_for),
        log=_log(history, about),
    )


def _log(history: History, about: HistoryPeriod) -> HistoryLog | None:
    if not history.has("log_errors"):
        return None
    view = view_for(history, "log_errors", about.begin)
    counted = (name for name in HistoryLog.__struct_fields__ if name != "seconds")
    sums = ", ".join(f"sum({name})::BIGINT AS {name}" for name in counted)
    found = history.row(
        f"""SELECT {sums}, sum(CASE WHEN errors IS NOT NULL THEN seconds END) AS seconds
            FROM {view} WHERE {IN_PERIOD}""",
        about.parameters,
        inside=True,
    )
    return None if found["errors"] is None else HistoryLog(**found)


def checkpoints(history: History, about: HistoryPeriod) -> HistoryCheckpoints:
    view, wal = (view_for(history, name, about.begin) for name in ("checkpoints", "wal"))
    rate = "bytes / nullif(seconds, 0)" if wal == "wal" else "bytes_peak"
    done = history.row(
        f"""SELECT sum(timed) AS timed, sum(requested) AS requested,
                   sum(write_ms) / 1000 AS write_seconds FROM {view} WHERE {IN_PERIOD}""",
        about.parameters, inside=True,
    )  # fmt: skip
    written = history.row(
        f"SELECT sum(bytes) AS wal_bytes, max({rate}) AS peak_wal FROM {wal} WHERE {IN_PERIOD}",
        about.parameters, inside=True,
    )  # fmt: skip
    return HistoryCheckpoints(
        timed=_whole(done["timed"]), requested=_whole(done["requested"]),
        write_seconds=done["write_seconds"], wal_bytes=_whole(written["wal_bytes"]),
        peak_wal=written["peak_wal"],
    )  # fmt: skip


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def slowest_minute(history: History, about: HistoryPeriod) -> HistoryMinute | None:
    """What the busiest minute's sessions waited for, and what ran; None if none was active."""
    busiest = busiest_minute(history, about)
    if busiest is None:
        return None
    minute, load = busiest
    begin = max(minute, about.begin)
    within = replace(about, begin=begin, end=min(minute + _MINUTE, about.end))
    waits: dict[str, float] = defaultdict(float)
    for _, event, samples in at_work(history, within, WAIT_EVENT):
        waits[event] += samples
    beats = beats_by_minute(history, within)[minute]
    # A sample of statements covers the minute before it.
    after = replace(about, begin=begin, end=min(minute + 2 * _MINUTE, about.end))
    return HistoryMinute(
        at=minute,
        load=load,
        waits=tuple(
            HistoryWait(event=event, sessions=samples / beats)
            for event, samples in sorted(waits.items(), key=lambda one: (-one[1], one[0]))[:_WAITS]
        ),
        statements=statements(history, after, 3),
    )
