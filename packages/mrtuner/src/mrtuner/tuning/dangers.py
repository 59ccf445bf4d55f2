"""What can go wrong with the settings that a server runs with now, the worst first.

Each is a function of known facts, and says what is lost and what prevents it. What could not be
read yields nothing here: it is listed as missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mrtuner.tuning.advice import Level, Notice
from mrtuner.tuning.budget import HUGE_PAGE, Budget
from mrtuner.tuning.feasibility import solve, values_to_lower, what_must_give
from mrtuner.tuning.rules.wal import volume_filled_by_wal
from mrtuner.tuning.situation import Situation
from mrtuner.units import MiB, pretty_bytes
from mrtuner.wording import enumerated

if TYPE_CHECKING:
    from mrtuner.change.settings.start_check import StartCheck
    from mrtuner.host.model import Host
    from mrtuner.postgres.model import Server

#: Switches that must be on, and what happens while they are off.
_MUST_BE_ON: Final = {
    "fsync": "a crash of the machine can destroy every database",
    "full_page_writes": "a crash during a write leaves a torn page that cannot be repaired",
    "autovacuum": "dead rows pile up until queries crawl; only wraparound still starts a vacuum",
    "track_counts": "autovacuum does not see what changed, so it does not run",
}


def dangers(
    situation: Situation,
    server: Server | None,
    host: Host | None,
    now: Budget | None,
    start: StartCheck | None = None,
) -> Iterator[Notice]:
    """Yield the dangers of a running server.

    `now` is the budget of its settings, `start` what was found out about its next start.
    """
    if server is None:
        return
    texts = [
        *_switched_off(situation, "fsync", "full_page_writes"),
        *_more_memory_than_there_is(situation, now),
        *_no_next_start(start),
        *_too_few_huge_pages(situation, host),
        *_wal_fills_the_volume(situation),
        *_switched_off(situation, "autovacuum", "track_counts"),
        *_workers_without_slots(situation),
    ]
    for text in texts:
        yield Notice(Level.DANGER, text)


def _switched_off(situation: Situation, *names: str) -> Iterator[str]:
    for name in names:
        if situation.running.get(name) == "off":
            yield f"{name} is off: {_MUST_BE_ON[name]}. ALTER SYSTEM SET {name} = on, then reload"


def _more_memory_than_there_is(situation: Situation, now: Budget | None) -> Iterator[str]:
    """The worst case of the settings in force, if it exceeds all of memory."""
    if now is None or now.total <= now.memory:
        return
    largest = max(now.parts, key=lambda part: part.size)
    times = now.total / now.memory
    yield (
        f"the settings in force can ask for {pretty_bytes(now.total)}, {times:.1f} times the "
        f"{pretty_bytes(now.memory)} of memory: {pretty_bytes(largest.size)} are "
        f"{largest.name} ({largest.how}). If they do, the kernel kills the server, and every "
        f"session is lost. {_way_out(situation)}"
    )


def _way_out(situation: Situation) -> str:
    """What makes the worst case fit: the owner's values to lower; else the inputs to change."""
    if solve(situation).holds:
        return "The advice below fits"
    lowered = values_to_lower(situation)
    if lowered:
        values = [f"{name} to {item.value}" for name, item in lowered.items()]
        names = ",".join(sorted({*situation.lower, *lowered}))
        return f"--lower {names} sets {enumerated(values)}"
    if any(situation.running.get(name) is None for name in ("work_mem", "max_connections")):
        return "What to lower cannot be said, since the role may not see all settings"
    return what_must_give(situation, int(situation.running["max_connections"]))


def _no_next_start(start: StartCheck | None) -> Iterator[str]:
    for one in start.problems if start else ():
        yield f"the server will not start again: {one.why}. {one.hint or ''}".rstrip()


def _too_few_huge_pages(situation: Situation, host: Host | None) -> Iterator[str]:
    """huge_pages = on with fewer reserved than the server needs to start again."""
    if situation.running.get("huge_pages") != "on" or host is None or host.huge_pages is None:
        return
    pages = host.huge_pages.value
    needed = int(situation.running.get("shared_memory_size_in_huge_pages", -1))
    if needed > 0 and pages.size == HUGE_PAGE and pages.reserved < needed:
        yield (
            f"huge_pages is on and the server needs {needed} huge pages, but {pages.reserved} are "
            f"reserved: it will not start again. sysctl -w vm.nr_hugepages={needed}, or huge_pages "
            "= try"
        )


def _wal_fills_the_volume(situation: Situation) -> Iterator[str]:
    most, text = volume_filled_by_wal(situation), situation.running.get("max_wal_size")
    if most is not None and text is not None and int(text) * MiB > most:
        yield (
            f"max_wal_size is {pretty_bytes(int(text) * MiB)} on a volume of "
            f"{pretty_bytes(most * 2)}: WAL can fill it, and the server then stops"
        )


def _workers_without_slots(situation: Situation) -> Iterator[str]:
    """Since 18 autovacuum runs no more workers than it has slots. Source: autovacuum.c."""
    workers = situation.running.get("autovacuum_max_workers")
    slots = situation.running.get("autovacuum_worker_slots")
    if workers and slots and int(workers) > int(slots):
        yield (
            f"autovacuum_max_workers is {workers}, but autovacuum_worker_slots is {slots}: only "
            f"{slots} run. Raise the slots, which needs a restart, or lower the workers"
        )
