"""What a tuning contains besides the values: notices and recovery time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from mrtuner.postgres.model import FOLLOW_PRIMARY
from mrtuner.tuning import replication
from mrtuner.tuning.advice import Advice, Level, Notice, Recovery
from mrtuner.tuning.budget import DEFAULT_WORK_MEM, Chosen
from mrtuner.tuning.crash_recovery import replay
from mrtuner.tuning.feasibility import (
    Solution,
    if_all_sorted,
    is_raised,
    most_sessions_with,
    pages_for,
    solve,
)
from mrtuner.tuning.rules.wal import FEW
from mrtuner.tuning.situation import Situation, Wal
from mrtuner.tuning.suggestions import deserved
from mrtuner.units import Bytes, MiB, pretty_bytes, pretty_duration
from mrtuner.wording import enumerated, plural, plural_was

if TYPE_CHECKING:
    from mrtuner.postgres.model import Override, Server


def recovery(situation: Situation, advice: dict[str, Advice]) -> Recovery | None:
    """Return how much WAL a crash may leave to replay, the price of long checkpoint intervals."""
    size, timeout = advice["max_wal_size"].target, advice["checkpoint_timeout"].target
    if not isinstance(size, int) or not isinstance(timeout, int):
        return None
    wal, how = size * MiB, "all of max_wal_size"
    if situation.wal and not _hides_peaks(situation.wal):
        # The redo point may be a whole interval and a spread checkpoint back.
        by_rate = int(situation.wal.peak_rate * timeout * 1.9)
        if by_rate < wal:
            wal, how = by_rate, "1.9 intervals at the measured peak rate"
    pace = replay(situation)
    return Recovery(wal=wal, fast=wal / pace.fast, slow=wal / pace.slow, how=how, pace=pace.how)


def over_rto(situation: Situation, recovery: Recovery | None) -> Iterator[Notice]:
    """Warn if crash recovery may take longer than allowed, or nobody knows whether it does."""
    if situation.rto is None or recovery is None:
        return
    allowed, slow = situation.rto.seconds, recovery.slow
    assumed = f", {recovery.pace}" if replay(situation).assumed else ""
    if slow > allowed * 1.02:  # rounding for readability is no excess
        yield _warn(
            f"crash recovery may take {pretty_duration(slow)}{assumed}, more than the "
            f"{pretty_duration(allowed)} allowed: use faster storage, or fail over instead"
        )
    elif assumed:
        volume = situation.throughput
        missing = "--iops" if volume and volume.bandwidth else "--iops and --throughput"
        yield _warn(
            f"crash recovery takes at most {pretty_duration(allowed)} only {recovery.pace}: give "
            f"{missing}"
        )


def _hides_peaks(wal: Wal) -> bool:
    """Whether the average rate is too low to explain so many forced checkpoints."""
    total = wal.timed + wal.requested
    return not wal.watched and wal.requested > FEW * total


def notices(
    situation: Situation, solution: Solution, reserved: Solution | None, server: Server | None
) -> Iterator[Notice]:
    """Yield notices on memory, on storage and, for a live server, on its configuration."""
    chosen = solution.chosen
    if solution.budget is not None and solution.budget.fits:
        yield from _too_many_connections(chosen)
        yield from _page_tables(situation, solution, reserved)
        yield from _all_at_once(situation, solution)
        yield from _fewer_active(situation, solution)
    yield from _larger_than_the_volume(situation, solution)
    if situation.storage == "overlay":
        yield _warn("the data directory is in a container's own layer: use a volume")
    if server is not None:
        yield from _standbys_first(server, solution)
        yield from replication.notices(server)
        yield from _server_notices(server, chosen)


def _larger_than_the_volume(situation: Situation, solution: Solution) -> Iterator[Notice]:
    """Warn if what was described does not fit; a server that runs may have tablespaces."""
    data, disk = situation.data, situation.disk
    if situation.live or data is None or disk is None or disk.size is None:
        return
    wal = solution.advice["max_wal_size"].target
    held = wal * MiB if isinstance(wal, int) and situation.wal_disk is None else 0
    if data.size + held > disk.size:
        and_wal = f" and {pretty_bytes(held)} of WAL" if held else ""
        yield _warn(
            f"{pretty_bytes(data.size)} of data{and_wal} do not fit on a volume of "
            f"{pretty_bytes(disk.size)}: check --data and --disk"
        )


def _too_many_connections(chosen: Chosen) -> Iterator[Notice]:
    work_mem = chosen.settled().size("work_mem").evaluate({})
    sessions = chosen.count("max_connections")
    if work_mem < DEFAULT_WORK_MEM:
        yield _warn(
            f"{sessions} connections get only {pretty_bytes(work_mem)} of work_mem each, "
            "less than the server's default: use a pooler (pgbouncer) and fewer "
            "connections"
        )
    elif sessions > 500:
        yield _warn(
            f"{sessions} connections: with a pooler (pgbouncer), fewer serve as many clients"
        )


def _page_tables(
    situation: Situation, solution: Solution, reserved: Solution | None
) -> Iterator[Notice]:
    """Warn if page tables cost much memory, with both remedies and their numbers."""
    budget = solution.budget
    if budget is None or reserved is None or not budget.page_tables:
        return
    full = reserved.chosen.settled().size("shared_buffers").evaluate({})
    held = solution.chosen.settled().size("shared_buffers").evaluate({})
    if held >= full and budget.page_tables < budget.memory // 4:
        return
    sessions = solution.chosen.count("max_connections")
    ways = []
    if reserved.budget and reserved.holds and situation.may_use_huge_pages:
        left = pretty_bytes(reserved.work_mem)
        ways.append(
            f"reserve {pages_for(reserved.budget, situation.huge_page)} huge pages and use "
            f"--huge-pages (gives {pretty_bytes(full)} of shared_buffers, {left} of work_mem)"
        )
    if held < full:
        fewer = most_sessions_with(situation, Bytes(full), sessions)
        ways.append(f"use at most {fewer} --connections, which do not limit shared_buffers")
    way = ", or ".join(ways) or "fewer connections leave more for sorts"
    yield _warn(
        f"page tables of {sessions} sessions, and of the server's other processes, may take "
        f"{pretty_bytes(budget.page_tables)} "
        f"of the budget, since huge pages are not confirmed: {way}"
    )


def _all_at_once(situation: Situation, solution: Solution) -> Iterator[Notice]:
    """Warn if memory would not suffice should every session sort, despite --active."""
    sessions = solution.chosen.count("max_connections")
    said = situation.connections.active
    if said is None or said >= sessions:
        return
    everybody = if_all_sorted(situation, solution)
    if everybody is not None and not everybody.fits:
        share = everybody.total / everybody.memory
        yield _warn(
            f"--active {said} is taken on trust: if all {sessions} sessions sorted at the "
            f"same time, they would need {pretty_bytes(everybody.total)}, {share:.0%} of "
            "memory"
        )


def _fewer_active(situation: Situation, solution: Solution) -> Iterator[Notice]:
    """Yield the work_mem that --active would allow, with the number of sessions seen active."""
    seen, said = situation.connections.seen_active, situation.connections.active
    if seen is None or said is not None:
        return
    vouched = solve(replace(situation, connections=replace(situation.connections, active=seen)))
    if vouched.work_mem > solution.work_mem:
        how = f"at most {plural_was(seen, 'session')} seen active at the same time"
        if situation.peaks_assumed:
            how = (
                f"{plural(seen, 'session')} active at peaks, judged by the average "
                f"{situation.observed} (--watch at a peak, or a history, shows how many are)"
            )
        yield Notice(
            Level.INFO,
            f"{how}: if there are never more, --active {seen} gives "
            f"{pretty_bytes(vouched.work_mem)} of work_mem instead of "
            f"{pretty_bytes(solution.work_mem)}",
        )


def _standbys_first(server: Server, solution: Solution) -> Iterator[Notice]:
    """Warn of what pauses replay on standbys that do not have it yet."""
    raised = [name for name in FOLLOW_PRIMARY if is_raised(solution.advice.get(name))]
    if server.standbys and raised:
        yield _warn(
            f"{plural(server.standbys, 'standby')} would stop replaying if the primary "
            f"had a larger {enumerated(raised)}: change the standbys first, or name them with "
            "mrtuner apply --standby"
        )


def _server_notices(server: Server, chosen: Chosen) -> Iterator[Notice]:
    yield Notice(Level.INFO, f"platform: {server.platform.name} ({server.platform.evidence})")
    if not server.platform.alter_system:
        yield _warn(server.platform.how)
    if server.standby:
        yield _warn("this is a standby: settings that must match the primary are left alone")
    for item in server.overrides:
        # Others do not concern us and may hold secrets.
        if item.name in chosen.plain and not deserved(server, item):
            yield _warn(
                f"{_who(item)} sets {item.name} = {item.value}, which overrides the advised value"
            )
    for problem in server.file_problems:
        name = problem.name or "a line"
        yield _warn(f"{problem.where}: {name} cannot be used: {problem.error}")
    for setting in server.settings.values():
        if setting.pending_restart:
            yield _warn(f"{setting.name} was changed and needs a restart to take effect")


def _who(item: Override) -> str:
    named = [
        f"{kind} {name}"
        for kind, name in (("role", item.role), ("database", item.database))
        if name
    ]
    return " and ".join(named) or "every role"


def _warn(text: str) -> Notice:
    return Notice(Level.WARNING, text)
