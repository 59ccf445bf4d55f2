"""Advice for a described machine, this machine, a running server, or a recorded one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

from mrtuner.answers.recorded import Tell, remembered, silent
from mrtuner.errors import UsageError
from mrtuner.inputs import MachineInputs
from mrtuner.tuning import tune as from_facts
from mrtuner.tuning import tune_connected, tune_recorded
from mrtuner.tuning.advice import Level, Notice, Tuning
from mrtuner.tuning.gather import flags
from mrtuner.tuning.situation import Seen
from mrtuner.units import parse_duration

if TYPE_CHECKING:
    from mrtuner.history.analysis.period import HistoryPeriod
    from mrtuner.history.reading import History

#: How far back a history is searched for peaks [s]: as long as sampled rows are kept.
REMEMBERED: Final = 35 * 86_400.0


def tune(
    dsn: str | None = None,
    *,
    watch: float | str | None = None,
    history: Path | str | None = None,
    instance: str | None = None,
    tell: Tell = silent,
    **given: Unpack[MachineInputs],
) -> Tuning:
    """Advise settings for a server (`dsn`), a described machine, or the machine we run on.

    Sizes are bytes or texts such as ``"16GB"``. `cpus` is a count. `connections` is the number of
    application sessions (max_connections adds what the server reserves), and `active` how many of
    them run a statement at the same moment. `huge_pages` says that huge pages are, or will be,
    reserved for shared memory, so that page tables need not be counted. `storage` is hdd, ssd,
    nvme, ebs, network or overlay; `workload` is web, oltp, olap, mixed (the default) or desktop;
    `ceiling` is the share of memory that the worst case may use (0.9). `wal_disk` is the size of
    pg_wal's own volume; `iops` and `throughput` [bytes a second] are what the data volume can do;
    `rto` is the longest crash recovery allowed ("60s"). `lower` names settings of a running
    server that may be made smaller although somebody chose them (``"work_mem"``). `memory` or
    `cpus` without `dsn` describes another machine, on which everything not given is Unknown.

    What a server did since its statistics were reset is taken from a `watch` of this length, or
    from the peaks of a `history`, a directory that ``mrtuner record`` wrote, of which `instance`
    names one server. A history without `dsn` gives the advice for the server as it was recorded.

    Raises:
        BadValue: an input is invalid.
        DoesNotFit: the memory cannot hold the connections asked for.
        ConnectError: the server cannot be read.
        UsageError: a watch without a server or with a history, or no such history or instance.

    >>> tune(memory="16GB", cpus=4, storage="ssd", postgres=17)["shared_buffers"].value
    '4GB'
    """
    if watch is not None and history is not None:
        raise UsageError("--history and --watch cannot be used together", "Omit one of them.")
    if history is not None:
        return _remembered(dsn, history, instance, given)
    if watch is None:
        return from_facts(dsn, **given)
    if dsn is None:
        raise UsageError("--watch needs a running server", "Give its connection string.")
    return _watched(dsn, parse_duration(watch), tell, given)


def _watched(dsn: str, seconds: float, tell: Tell, given: MachineInputs) -> Tuning:
    """Advise from what the counters did while we watched, not since their last reset."""
    from mrtuner.postgres.connect import connect
    from mrtuner.postgres.cumulative_statistics import watch

    said = replace(flags(**given), seen=Seen.WATCHED)
    with connect(dsn) as connection:
        tell(f"watching the server's counters for {seconds:g} s; keep it under load")
        return tune_connected(connection, said, watch(connection, seconds))


def _remembered(
    dsn: str | None, directory: Path | str, instance: str | None, given: MachineInputs
) -> Tuning:
    """Advise from the busiest times of the history, not from averages."""
    from mrtuner.history.analysis.peaks import peaks
    from mrtuner.postgres.connect import connect

    with remembered(directory, instance, since=REMEMBERED) as (history, about):
        if dsn is None:
            return of_record(history, about, given)
        busiest = peaks(history, about)
    said = replace(flags(**given), seen=Seen.RECORDED)
    with connect(dsn) as connection:
        return tune_connected(connection, said, busiest)


def of_record(history: History, about: HistoryPeriod, given: MachineInputs) -> Tuning:
    """Advise for a server as it was recorded; what was given takes precedence."""
    from mrtuner.history.recorded.server import recorded

    found = recorded(history, about)
    said = replace(flags(**given), seen=Seen.RECORDED)
    if found.server is None and said.postgres is None:
        said = replace(said, postgres=found.major)
    tuning = tune_recorded(found.server, found.host, said)
    notices = (Notice(Level.INFO, text) for text in found.notices)
    return replace(tuning, notices=(*notices, *tuning.notices))
