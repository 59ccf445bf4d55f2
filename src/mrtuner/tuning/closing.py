"""What belongs to a finished tuning beside the values: notices, steps, recovery."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mrtuner.tuning.advice import Advice, Level, Notice, Recovery, Step
from mrtuner.tuning.budget import Budget, Chosen
from mrtuner.tuning.situation import Situation
from mrtuner.units import GiB, MiB, pretty_bytes

if TYPE_CHECKING:
    from mrtuner.host.model import Host
    from mrtuner.postgres.model import Override, Server

HUGE_PAGE: Final = 2 * MiB
#: A page-table entry is 8 bytes for each 4 kB page that a process has touched.
PAGE_TABLE_SHARE: Final = 512
#: Replay of WAL in bytes a second, slow and fast. Measured: docs/proof.md, crash recovery.
REPLAY: Final = (40 * MiB, 200 * MiB)
#: Sorts below the server's default work_mem are a sign of too many connections.
DEFAULT_WORK_MEM: Final = 4 * MiB


def steps(
    situation: Situation, budget: Budget | None, host: Host | None, server: Server | None
) -> Iterator[Step]:
    """What only a person with the machine in hand can do; nothing where a provider has it."""
    if budget is None or budget.shared < GiB or "huge_pages" in situation.fixed:
        return
    if server and not server.platform.alter_system:
        return
    pages = -(-budget.shared // HUGE_PAGE)
    if host and host.huge_pages and host.huge_pages.value.reserved >= pages:
        return
    commands = [f"sysctl -w vm.nr_hugepages={pages}  # and the same line in /etc/sysctl.d/"]
    if situation.major >= 15:
        commands.append(
            'postgres -D "$PGDATA" -C shared_memory_size_in_huge_pages  # the exact number, stopped'
        )
    yield Step(
        f"reserve {pages} huge pages of 2 MB for shared memory, so that huge_pages = try "
        "does something (worth most for cached reads)",
        tuple(commands),
    )


def recovery(situation: Situation, advice: dict[str, Advice]) -> Recovery | None:
    """The price of long checkpoint intervals: how much WAL a crash may leave to replay."""
    size, timeout = advice["max_wal_size"].target, advice["checkpoint_timeout"].target
    if not isinstance(size, int) or not isinstance(timeout, int):
        return None
    wal, how = size * MiB, "all of max_wal_size"
    if situation.wal and situation.wal.representative:
        # The redo point may lie a whole interval and a spread checkpoint back.
        by_rate = int(situation.wal.peak_rate * timeout * 1.9)
        if by_rate < wal:
            wal, how = by_rate, "1.9 intervals at the measured peak rate"
    slow, fast = REPLAY
    return Recovery(wal=wal, fast=wal / fast, slow=wal / slow, how=how)


def notices(
    situation: Situation, chosen: Chosen, budget: Budget | None, server: Server | None
) -> Iterator[Notice]:
    """What a careful colleague would add."""
    if budget is not None:
        yield from _too_many_connections(chosen)
        yield from _page_tables(chosen, budget)
    if situation.storage == "overlay":
        yield _warn("the data lie in a container's image layer: use a volume")
    if server is not None:
        yield from _server_notices(server, chosen)


def _too_many_connections(chosen: Chosen) -> Iterator[Notice]:
    work_mem = chosen.settled().size("work_mem").evaluate({})
    sessions = chosen.count("max_connections")
    if work_mem < DEFAULT_WORK_MEM:
        yield _warn(
            f"{sessions} connections leave each {pretty_bytes(work_mem)} of work_mem, less than "
            "the server's default: use a pooler (pgbouncer) and fewer connections"
        )
    elif sessions > 500:
        yield _warn(f"{sessions} connections: a pooler (pgbouncer) serves as many with fewer")


def _page_tables(chosen: Chosen, budget: Budget) -> Iterator[Notice]:
    buffers = chosen.settled().size("shared_buffers").evaluate({})
    tables = chosen.count("max_connections") * buffers // PAGE_TABLE_SHARE
    if tables > budget.memory // 20:
        yield _warn(
            f"without huge pages, page tables may grow to {pretty_bytes(tables)} beside the "
            "budget once every connection has touched every buffer: reserve huge pages"
        )


def _server_notices(server: Server, chosen: Chosen) -> Iterator[Notice]:
    yield Notice(Level.INFO, f"{server.platform.name} ({server.platform.evidence})")
    if not server.platform.alter_system:
        yield _warn(server.platform.how)
    if server.standby:
        yield _warn("this is a standby: what must match the primary is left alone")
    for item in server.overrides:
        if item.name in chosen.plain:  # others are no matter of ours, and may hold secrets
            yield _warn(
                f"{_who(item)} sets {item.name} = {item.value}: that beats the value advised here"
            )
    for problem in server.file_problems:
        where = f"{problem.sourcefile}:{problem.sourceline}"
        yield _warn(f"{where}: {problem.name or 'a line'} cannot be used: {problem.error}")
    for setting in server.settings.values():
        if setting.pending_restart:
            yield _warn(f"{setting.name} was changed and waits for a restart")


def _who(item: Override) -> str:
    named = [
        f"{kind} {name}"
        for kind, name in (("role", item.role), ("database", item.database))
        if name
    ]
    return " and ".join(named) or "every role"


def _warn(text: str) -> Notice:
    return Notice(Level.WARNING, text)
