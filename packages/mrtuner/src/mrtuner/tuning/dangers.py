"""What can go wrong with the settings that a server runs with now, the worst first.

Each is a function of known facts, and says what is lost and what prevents it. What could not be
read yields nothing here: it is listed as missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mrtuner.findings import UNKNOWN, Finding, Severity
from mrtuner.tuning.budget import Budget
from mrtuner.tuning.feasibility import (
    in_force,
    overcommitted,
    servers_own,
    solve,
    values_to_lower,
    what_must_give,
)
from mrtuner.tuning.overrides import (
    for_all_roles,
    resets,
    switched,
    taken_back,
    whose,
    with_all_roles,
)
from mrtuner.tuning.rules.wal import UNLESS_ZFS, WHOLE_PAGES, volume_filled_by_wal
from mrtuner.tuning.situation import OF_OUR_SESSION, Situation
from mrtuner.units import PAGE, KiB, MiB, pretty_bytes
from mrtuner.wording import enumerated

if TYPE_CHECKING:
    from mrtuner.change.settings.next_start import NextStart
    from mrtuner.change.settings.start_check import StartCheck
    from mrtuner.host.model import Host, HugePages
    from mrtuner.postgres.model import Server

#: Switches that must be as here, and what happens while they are not.
_MUST_BE: Final = {
    "fsync": ("on", "a crash of the machine can destroy every database"),
    "full_page_writes": (
        "on", "a crash during a write leaves a torn page that cannot be repaired",
    ),
    "zero_damaged_pages": (
        "off", "a damaged page is emptied where it is read, and its rows are lost",
    ),
    "ignore_checksum_failure": (
        "off", "damaged pages are read as if they were whole, and backups keep the damage",
    ),
    "autovacuum": (
        "on", "dead rows pile up until queries crawl; only wraparound still starts a vacuum",
    ),
    "track_counts": ("on", "autovacuum does not see what changed, and leaves it alone"),
}  # fmt: skip


def dangers(
    situation: Situation,
    server: Server | None,
    host: Host | None,
    now: Budget | None,
    start: StartCheck | None = None,
) -> Iterator[Finding]:
    """Yield the dangers of a running server.

    `now` is the budget of its settings, `start` what was found out about its next start.
    """
    if server is None:
        return
    yield from _switched(situation, server, "durability-off", *_durable(situation, server))
    yield from _more_memory_than_there_is(situation, server, now)
    yield from _no_next_start(server, start)
    yield from _more_shared_memory_than_there_is(situation, server, start)
    yield from _too_few_huge_pages(situation, server, host, start)
    yield from _wal_fills_the_volume(situation)
    yield from _switched(situation, server, "autovacuum-off", "autovacuum", "track_counts")
    yield from _workers_without_slots(situation)


def _danger(
    name: str, text: str, consequence: str, *remedy: str, cost: float = UNKNOWN,
    evidence: tuple[str, ...] = (),
) -> Finding:  # fmt: skip
    return Finding(
        id=name, severity=Severity.DANGER, text=text, consequence=consequence, cost=cost,
        evidence=evidence, remedy=tuple(filter(None, remedy)), basis="the settings in force",
    )  # fmt: skip


def _durable(situation: Situation, server: Server) -> Iterator[str]:
    """The switches without which data are lost. Neon's computes run without the first two: they
    keep no data of their own, its safekeepers store WAL and its pageservers the pages. ZFS tears
    no page.
    """
    if server.platform.name != "neon":
        yield "fsync"
        if situation.filesystem != WHOLE_PAGES:
            yield "full_page_writes"
    yield from ("zero_damaged_pages", "ignore_checksum_failure")


def _switched(situation: Situation, server: Server, name: str, *switches: str) -> Iterator[Finding]:
    cost = 1.0 if name == "durability-off" else UNKNOWN  # all data, or room and time
    for one in switches:
        right, harm = _MUST_BE[one]
        if one == "full_page_writes" and situation.filesystem is None:
            harm = f"{harm}, {UNLESS_ZFS}"
        hidden = situation.origins.get(one) in OF_OUR_SESSION
        if not hidden and situation.running.get(one, right) != right:
            remedy = server.platform.remedy(**{one: right})
            yield _danger(name, f"{one} is {situation.running[one]}", harm, remedy, cost=cost)
        if found := switched(server, one, "off" if right == "on" else "on"):
            text = f"{one} is {found[0].value} for {whose(*found)}"
            yield _danger(name, text, harm, *resets(server, found), cost=cost)


def _more_memory_than_there_is(
    situation: Situation, server: Server, now: Budget | None
) -> Iterator[Finding]:
    now = overcommitted(situation, server.platform, now)
    for_all, remedy = for_all_roles(server), tuple[str, ...]()
    if for_all:
        before, situation = now, with_all_roles(situation, server)
        now = in_force(situation) if servers_own(situation) else None
        now = overcommitted(situation, server.platform, now)
        remedy = () if before else resets(server, for_all)
    if now is None:
        return
    largest = max(now.parts, key=lambda part: part.size)
    times = now.total / now.memory
    yield _danger(
        "memory-overcommitted",
        f"the settings in force can ask for {pretty_bytes(now.total)}, {times:.1f} times the "
        f"{pretty_bytes(now.memory)} of memory",
        "if they do, the kernel kills the server, and every session is lost",
        *(remedy or (_way_out(situation),)),
        cost=1 - now.memory / now.total,
        evidence=(
            f"{pretty_bytes(largest.size)} are {largest.name} ({largest.how})",
            *(f"ALTER ROLE ALL sets {one.name} = {one.value}" for one in for_all),
        ),
    )


def _way_out(situation: Situation) -> str:
    """What makes the worst case fit: the owner's values to lower; else the inputs to change."""
    if solve(situation).holds:
        return "The advice of mrtuner tune fits"
    lowered = values_to_lower(situation)
    if lowered:
        values = [f"{name} to {item.value}" for name, item in lowered.items()]
        names = ",".join(sorted({*situation.lower, *lowered}))
        return f"mrtuner tune --lower {names} sets {enumerated(values)}"
    if any(situation.running.get(name) is None for name in ("work_mem", "max_connections")):
        return "What to lower cannot be said, since the role may not see all settings"
    return what_must_give(situation, int(situation.running["max_connections"]))


def _no_next_start(server: Server, start: StartCheck | None) -> Iterator[Finding]:
    for one in start.problems if start else ():
        yield _danger(
            "next-start", "the server will not start again", one.why, one.hint or "",
            *_or_back(server, one.name), cost=1.0,
        )  # fmt: skip


def _or_back(server: Server, name: str) -> tuple[str, ...]:
    back = tuple(taken_back(server, {name}))
    return ("Or take it back:", *back) if back else ()


#: What shared memory is made of, as far as it is counted here.
_SHARED: Final = frozenset({
    "shared_buffers", "wal_buffers", "max_connections", "max_prepared_transactions",
    "max_locks_per_transaction",
})  # fmt: skip


def _more_shared_memory_than_there_is(
    situation: Situation, server: Server, start: StartCheck | None
) -> Iterator[Finding]:
    needed, memory = shared_at_start(start), situation.memory
    if needed and memory and needed > memory.size:
        yield _danger(
            "next-start",
            f"the settings that wait for a restart need {pretty_bytes(needed)} of shared memory, "
            f"and there are {pretty_bytes(memory.size)}",
            "the server does not start again, or is killed once it has used them",
            "Take them back in the files, before anything restarts the server",
            *taken_back(server, _SHARED),
            cost=1.0,
        )


#: Of shared memory, for each lock that the lock table has room for [bytes].
#: Source: documentation of max_locks_per_transaction before 9.3, Managing Kernel Resources.
_A_LOCK: Final = 270


def shared_at_start(start: StartCheck | None) -> int:
    """The least shared memory that what waits for a restart asks for [bytes]; 0: no more than now.

    Buffers and the lock table alone: nothing else is large.
    """
    next_start = start.start if start else None
    if next_start is None:
        return 0
    then, now = _shared(next_start), _shared(replace(next_start, changed={}))
    return then if then > now else 0


def _shared(start: NextStart) -> int:
    buffers = start.number("shared_buffers") + max(0, start.number("wal_buffers"))
    holders = start.number("max_connections") + start.number("max_prepared_transactions")
    return buffers * PAGE + holders * start.number("max_locks_per_transaction") * _A_LOCK


def _too_few_huge_pages(
    situation: Situation, server: Server, host: Host | None, start: StartCheck | None
) -> Iterator[Finding]:
    """huge_pages = on with fewer reserved than the server needs to start again."""
    then = start.start if start else None
    switch = then.text("huge_pages") if then else situation.running.get("huge_pages")
    if switch != "on" or host is None or host.huge_pages is None:
        return
    usual = host.huge_pages.value.size
    now = int(situation.running.get("huge_page_size", 0)) * KiB or usual
    size = then.number("huge_page_size") * KiB or usual if then else now
    shared = int(situation.running.get("shared_memory_size_in_huge_pages", -1)) * now
    if then and shared > 0:
        shared += _shared(then) - _shared(replace(then, changed={}))
    elif then:  # before 15 the server does not say
        shared = _shared(then)
    needed, reserved = -(-shared // size), host.reserved(size)
    others = _used_by_others(situation, host.huge_pages.value) if size == now == usual else 0
    if reserved is not None and reserved - others < needed:
        of, how = "", f"sysctl -w vm.nr_hugepages={needed + others}"
        if size != usual:  # of those only pages of 1 GB are counted
            of = f" of {pretty_bytes(size)}"
            how = f"hugepagesz=1G hugepages={needed} on the kernel's command line"
        yield _danger(
            "next-start",
            f"huge_pages is on and the server needs {needed} huge pages{of}, but {reserved} are "
            f"reserved{f', of which others use {others}' if others else ''}",
            "it will not start again",
            f"{how}, or huge_pages = try",
            *_or_back(server, "huge_pages"),
            cost=1.0,
        )


def _used_by_others(situation: Situation, pages: HugePages) -> int:
    """Huge pages in use that are not the server's; 0 where it is not known whether it uses any."""
    own = situation.running.get("shared_memory_size_in_huge_pages")  # since 15
    if situation.running.get("huge_pages") == "on" and own is not None:
        return max(0, pages.used - int(own))
    return 0


def _wal_fills_the_volume(situation: Situation) -> Iterator[Finding]:
    most, text = volume_filled_by_wal(situation), situation.running.get("max_wal_size")
    if most is not None and text is not None and int(text) * MiB > most:
        yield _danger(
            "wal-fills-volume",
            f"max_wal_size is {pretty_bytes(int(text) * MiB)} on a volume of "
            f"{pretty_bytes(most * 2)}",
            "WAL can fill it, and the server then stops",
            cost=min(1.0, int(text) * MiB / (most * 2)),
        )


def _workers_without_slots(situation: Situation) -> Iterator[Finding]:
    """Since 18 autovacuum runs no more workers than it has slots. Source: autovacuum.c."""
    workers = situation.running.get("autovacuum_max_workers")
    slots = situation.running.get("autovacuum_worker_slots")
    if workers and slots and int(workers) > int(slots):
        yield _danger(
            "autovacuum-off",
            f"autovacuum_max_workers is {workers}, but autovacuum_worker_slots is {slots}",
            f"only {slots} run",
            "Raise the slots, which needs a restart, or lower the workers",
            cost=1 - int(slots) / int(workers),
        )
