"""The memory budget: what everything may use at the same time, and what that leaves for sessions.

The worst case is shared memory, every connection running its sorts and hashes at the same
moment, every parallel worker doing the same, every autovacuum worker and one maintenance
command at their limits, each process's own overhead, and the page tables of every process that
has touched all of shared memory, unless huge pages are proved to hold it. Huge pages beyond it, or
too few for it, are lost. Each part is an expression, so the same sum is a number for one machine
and a formula for a family of them.

If the number of simultaneously active sessions is given, only those sort.

Not counted, as docs/concepts/budget.md says: temporary tables (temp_buffers) and memory that
extensions use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from mrtuner.formula.expression import MEMORY, Expr, as_expr, greatest, least, total
from mrtuner.inputs import Workload
from mrtuner.tuning.situation import HugePages, Situation, as_share
from mrtuner.tuning.verdict import Value
from mrtuner.units import Bytes, GiB, KiB, MiB, pretty_bytes

#: Private memory and page tables of one backend. Measured on 18.6 after 25 s of pgbench with
#: prepared statements: 2.2 to 2.5 MB. A session that has touched 1,000 tables took 24 MB.
BACKEND: Final = 2560 * KiB
#: Besides buffers, PostgreSQL's shared memory holds descriptors, lock tables, I/O handles and
#: statistics. An upper bound on `postgres -C shared_memory_size` of 15 to 19 (checked by a test):
#: 3 % of shared_buffers, 112 kB for each connection and worker process, 20 MB.
SHARED_SHARE: Final = Fraction(103, 100)
SHARED_PER_PROCESS: Final = 112 * KiB
SHARED_FIXED: Final = 20 * MiB
#: Postmaster, checkpointer, writers, launchers, I/O workers, archiver, a few senders. Measured on
#: an idle 18.6: 5 MB for the postmaster, 0.3 to 0.7 MB for each of the others, 9 MB in all.
AUXILIARY: Final = 10
AUXILIARY_MEMORY: Final = 16 * MiB
#: I/O workers among the auxiliary processes: the default of 18.
USUAL_IO_WORKERS: Final = 3
#: A page-table entry takes 8 bytes for each 4 kB page that a process has touched.
#: Source: x86-64 and arm64, four levels with 4 kB pages; the upper levels add a 512th of it.
PAGE_TABLE_SHARE: Final = 512
#: Below this, a sort of a few thousand rows already spills: better to refuse than to advise it.
LEAST_WORK_MEM: Final = 256 * KiB
#: The server's own default; sorts below it are a sign of too many connections.
DEFAULT_WORK_MEM: Final = 4 * MiB
#: One merge pass for a sort of 240 MB.
ENOUGH: Final = 8 * MiB
#: Parallel workers are worth having from here on.
FEWEST_WORKERS: Final = 2
#: Processes that come with CPUs take at most this share of what sessions want for sorts (our
#: choice): they are the first that memory can do without.
OF_PROCESSES: Final = Fraction(1, 8)
#: Before 17 a vacuum could use at most 1 GB for dead row pointers.
VACUUM_CAP: Final = GiB


PAGE_TABLES: Final = "page tables"
#: Share of memory that settings may add to a worst case that the platform's own defaults already
#: exceed: one more worker process is not what breaks it.
MORE: Final = Fraction(5, 100)


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the budget."""

    name: str
    expr: Expr
    how: str


@dataclass(frozen=True, slots=True)
class Amount:
    """One line of the budget on one machine."""

    name: str
    size: Bytes
    how: str


@dataclass(frozen=True, slots=True)
class Budget:
    """The worst case on one machine against its ceiling."""

    memory: Bytes
    ceiling: Bytes
    parts: tuple[Amount, ...]

    @property
    def total(self) -> Bytes:
        return Bytes(sum(part.size for part in self.parts))

    @property
    def fits(self) -> bool:
        return self.total <= self.ceiling

    def exceeds(self, usual: Budget) -> bool:
        """Whether there is not enough memory, and clearly less than with the defaults, `usual`."""
        return self.total > self.memory and self.total - usual.total > MORE * self.memory

    @property
    def shared(self) -> Bytes:
        """The part that huge pages could hold."""
        return self.parts[0].size

    @property
    def page_tables(self) -> Bytes:
        """The page tables that huge pages would save; 0 if those already hold shared memory."""
        return Bytes(sum(part.size for part in self.parts if part.name == PAGE_TABLES))


@dataclass(frozen=True, slots=True)
class Chosen:
    """The values that will be in force: sizes as expressions [bytes], the rest as plain values.

    Counts are numbers even where a rule derived them from CPUs: a formula over memory can be
    divided by a number of sessions, but not by another formula.
    """

    sizes: dict[str, Expr] = field(default_factory=dict)
    actual: dict[str, Expr] = field(default_factory=dict)  # `sizes` as rounded for this machine
    plain: dict[str, Value] = field(default_factory=dict)

    def settled(self) -> Chosen:
        """Return the same choice with the sizes as rounded for this machine."""
        return Chosen(sizes=self.actual, actual=self.actual, plain=self.plain)

    def size(self, name: str) -> Expr:
        """Return a memory parameter in bytes, with -1 replaced by what it stands for."""
        if name == "wal_buffers" and self._automatic(name):
            # Source: xlog.c, XLOGChooseNumBuffers: a thirty-second, one WAL segment at most.
            return least(16 * MiB, greatest(64 * KiB, self.size("shared_buffers") / 32))
        if name == "autovacuum_work_mem" and self._automatic(name):
            return self.sizes["maintenance_work_mem"]
        return self.sizes[name]

    def count(self, name: str) -> int:
        return int(self.plain[name])

    @property
    def autovacuum_workers(self) -> int:
        """Autovacuum workers that can run: since 18 no more than there are slots."""
        workers = self.count("autovacuum_max_workers")
        return (
            min(workers, self.count("autovacuum_worker_slots"))
            if "autovacuum_worker_slots" in self.plain
            else workers
        )

    @property
    def more_io_workers(self) -> int:
        """I/O workers (18 and later) beyond those that AUXILIARY counts."""
        if self.plain.get("io_method") != "worker":
            return 0
        name = "io_max_workers" if "io_max_workers" in self.plain else "io_workers"
        return max(0, self.count(name) - USUAL_IO_WORKERS)

    @property
    def parallel_workers(self) -> int:
        """Parallel workers that can run: each is one of the worker processes."""
        return min(self.count("max_parallel_workers"), self.count("max_worker_processes"))

    @property
    def processes(self) -> int:
        """Sessions and workers that each take a backend's memory."""
        sessions = self.count("max_connections") + self.parallel_workers
        return sessions + self.autovacuum_workers + self.more_io_workers

    @property
    def hash_factor(self) -> Fraction:
        return Fraction(str(self.plain["hash_mem_multiplier"]))

    def _automatic(self, name: str) -> bool:
        return self.plain.get(name) == -1


def operations(workload: Workload) -> int:
    """Memory-hungry plan nodes that each session is assumed to run at the same moment."""
    return 2 if workload is Workload.OLAP else 1


def consumers(chosen: Chosen, workload: Workload, active: int | None = None) -> int:
    """How many full sets of sorts and hashes may be in memory at the same moment.

    `active` is the stated number of sessions that run a statement at the same moment; None: all.
    """
    sessions = chosen.count("max_connections")
    if active is not None:
        sessions = min(sessions, active)
    return (sessions + chosen.parallel_workers) * operations(workload)


def ceiling(share: float) -> Expr:
    """The most that the worst case may use."""
    return MEMORY * as_share(share)


def fixed_parts(chosen: Chosen, major: int, huge_pages: HugePages | None = None) -> list[Part]:
    """Everything except the sessions' own sorts and hashes."""
    workers, processes = chosen.autovacuum_workers, chosen.processes
    vacuum = chosen.size("autovacuum_work_mem")
    if major < 17:
        vacuum = least(vacuum, VACUUM_CAP)
    shared = Part(
        "shared memory", _shared(chosen), "buffers, their descriptors, locks, WAL buffers"
    )
    parts = [
        shared,
        Part(
            "processes",
            as_expr(processes * BACKEND + AUXILIARY_MEMORY),
            f"{processes} of {pretty_bytes(BACKEND)} each, plus "
            f"{pretty_bytes(AUXILIARY_MEMORY)} for the server's own",
        ),
        Part("autovacuum", vacuum * workers, _autovacuum_words(chosen)),
        Part(
            "maintenance",
            chosen.size("maintenance_work_mem"),
            "one operation with maintenance_work_mem",
        ),
    ]
    held = covered(chosen, huge_pages)
    if huge_pages and huge_pages.reserved:
        idle = huge_pages.reserved
        idle -= _shared(chosen.settled()).evaluate({}) if held else 0
        if idle > 0:
            how = "reserved, and shared memory is not in them: nothing else can be"
            parts.append(Part("huge pages", as_expr(idle), how))
    if not held:
        touching = processes + AUXILIARY
        how = f"{touching} processes that touched all of shared memory, without huge pages"
        parts.insert(1, Part(PAGE_TABLES, shared.expr * Fraction(touching, PAGE_TABLE_SHARE), how))
    return parts


def _autovacuum_words(chosen: Chosen) -> str:
    words = f"{chosen.autovacuum_workers} workers with autovacuum_work_mem each"
    if chosen.plain.get("autovacuum") in {False, "off"}:
        return f"{words}; autovacuum is off, so they run only against wraparound"
    return words


def covered(chosen: Chosen, huge_pages: HugePages | None) -> bool:
    """Whether huge pages are proved to hold all of the chosen shared memory."""
    if huge_pages is None or huge_pages.covers is None:
        return huge_pages is not None
    return huge_pages.hold(_shared(chosen.settled()).evaluate({}))


def shared_bound(buffers: Expr | int, wal_buffers: Expr | int, processes: int) -> Expr:
    """The most shared memory that the server uses; `processes` counts connections and workers."""
    return total(
        as_expr(buffers) * SHARED_SHARE,
        as_expr(wal_buffers),
        processes * SHARED_PER_PROCESS + SHARED_FIXED,
    )


def _shared(chosen: Chosen) -> Expr:
    processes = chosen.count("max_connections") + chosen.count("max_worker_processes")
    return shared_bound(chosen.size("shared_buffers"), chosen.size("wal_buffers"), processes)


def room_for_sessions(
    chosen: Chosen, major: int, share: float, huge_pages: HugePages | None = None
) -> Expr:
    """Bytes under the ceiling that no other part can use."""
    fixed = fixed_parts(chosen, major, huge_pages)
    return total(ceiling(share), *(part.expr * -1 for part in fixed))


#: The reason for a number that `limited` has lowered.
SPARED: Final = "as many as the memory budget spares: sessions need the rest"


def limited(
    name: str,
    wanted: Expr,
    chosen: Chosen,
    situation: Situation,
    *,
    fewest: int,
    each: int | Fraction = 0,
) -> Expr:
    """Return how many processes of a kind to have: as many as wanted, or as memory can spare.

    Each takes `each` bytes besides its own overhead. Those beyond `fewest` take what is left when
    all sessions sort with 8 MB, or else an eighth of what is left with the least work_mem. So CPUs
    do not displace sessions. Kinds that are decided earlier take their part first.
    """
    machine = situation.machine
    if situation.memory is None or situation.cpus is None:
        return wanted
    few = replace(chosen, plain={**chosen.plain, name: fewest})
    room = room_for_sessions(few, situation.major, situation.ceiling, situation.huge_pages)
    sorts = consumers(few, situation.workload, situation.connections.active) * chosen.hash_factor
    left = room.evaluate(machine)
    spare = max(left - sorts * ENOUGH, (left - sorts * LEAST_WORK_MEM) * OF_PROCESSES)
    one = BACKEND + each
    if not covered(chosen, situation.huge_pages):
        one += Fraction(_shared(chosen).evaluate(machine), PAGE_TABLE_SHARE)
    held = fewest + max(0, int(spare / one))
    return wanted if wanted.evaluate(machine) <= held else as_expr(held)


def left_for_caches(chosen: Chosen, situation: Situation) -> Expr:
    """Bytes under the ceiling expected to be left for shared buffers and the kernel's cache.

    What is left besides the sorts and page tables of the active sessions and their parallel
    workers, and all other parts of the budget except a maintenance command.
    """
    active = situation.active(chosen.count("max_connections")).count
    helpers = active * chosen.count("max_parallel_workers_per_gather")
    busy = active + min(helpers, chosen.parallel_workers)
    number = busy * operations(situation.workload)
    parts = fixed_parts(chosen, situation.major, situation.huge_pages)
    taken = [part.expr for part in parts if part.name not in {"maintenance", PAGE_TABLES}]
    if not covered(chosen, situation.huge_pages):
        taken.append(_shared(chosen) * Fraction(busy + AUXILIARY, PAGE_TABLE_SHARE))
    return total(
        ceiling(situation.ceiling),
        chosen.size("shared_buffers"),
        chosen.size("work_mem") * (number * chosen.hash_factor) * -1,
        *(part * -1 for part in taken),
    )


def draw_up(
    chosen: Chosen,
    *,
    major: int,
    workload: Workload,
    share: float,
    machine: Mapping[str, int],
    huge_pages: HugePages | None = None,
    active: int | None = None,
) -> Budget | None:
    """Return the budget on one machine, or None if its memory is unknown.

    `active` is as in `consumers`; page tables count unless `huge_pages` hold shared memory.
    """
    if "memory" not in machine:
        return None
    chosen = chosen.settled()
    parts = [
        Amount(part.name, Bytes(part.expr.evaluate(machine)), part.how)
        for part in fixed_parts(chosen, major, huge_pages)
    ]
    parts.insert(1, _sorts_and_hashes(chosen, workload, machine, active))
    most = Bytes(ceiling(share).evaluate(machine))
    return Budget(Bytes(machine["memory"]), most, tuple(parts))


def _sorts_and_hashes(
    chosen: Chosen, workload: Workload, machine: Mapping[str, int], active: int | None
) -> Amount:
    number = consumers(chosen, workload, active)
    each = (chosen.size("work_mem") * chosen.hash_factor).evaluate(machine)
    some = "" if active is None else f" ({active} active sessions and parallel workers)"
    how = f"{number} at once{some}, work_mem * {float(chosen.hash_factor):g} each"
    return Amount("sorts and hashes", Bytes(each * number), how)
