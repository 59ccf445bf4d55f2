"""The memory budget: what everything may take at once, and what is left for sessions.

The worst case is shared memory, every connection running its sorts and hashes at the same
moment, every parallel worker doing the same, every autovacuum worker and one maintenance
command at their limits, and each process's own overhead. Each part is an expression, so the
same sum is a number for one machine and a formula for a family of them.

Left out, and said so in docs/concepts/budget.md: temporary tables (temp_buffers), memory that
extensions take, and the kernel's page tables when every backend touches every buffer without
huge pages (shown apart, as a notice).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from mrtuner.formula import MEMORY, Expr, as_expr, least, total
from mrtuner.tuning.situation import Workload
from mrtuner.tuning.verdict import Value
from mrtuner.units import Bytes, GiB, KiB, MiB, pretty_bytes

#: Private memory and page tables of one backend. Measured on 18.6 after 25 s of pgbench with
#: prepared statements: 2.2 to 2.5 MB. A session that has touched 1,000 tables took 24 MB.
BACKEND: Final = 2560 * KiB
#: Beside buffers, PostgreSQL's shared memory holds descriptors, lock tables, I/O handles and
#: statistics. A bound above `postgres -C shared_memory_size` of 15 to 18 (a test compares them):
#: 3 % of shared_buffers, 112 kB for each connection and worker process, 20 MB.
SHARED_SHARE: Final = Fraction(103, 100)
SHARED_PER_PROCESS: Final = 112 * KiB
SHARED_FIXED: Final = 20 * MiB
#: Postmaster, checkpointer, writers, launcher, archiver, logical launcher, a few senders.
AUXILIARY: Final = 10
#: Below this, a sort of a few thousand rows already goes to disk: better refused than advised.
LEAST_WORK_MEM: Final = 256 * KiB
#: Before 17 a vacuum could use at most 1 GB for dead row pointers.
VACUUM_CAP: Final = GiB


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
        """All parts at once."""
        return Bytes(sum(part.size for part in self.parts))

    @property
    def fits(self) -> bool:
        """Whether the worst case stays within the ceiling."""
        return self.total <= self.ceiling

    @property
    def shared(self) -> Bytes:
        """The part that huge pages could hold."""
        return self.parts[0].size


@dataclass(frozen=True, slots=True)
class Chosen:
    """The values in force afterwards: sizes as expressions [bytes], the rest as plain values.

    Counts are numbers even where a rule wrote them over CPUs: a formula over memory can
    divide by a number of sessions, not by another formula.
    """

    sizes: dict[str, Expr] = field(default_factory=dict)
    actual: dict[str, Expr] = field(default_factory=dict)  # the same, rounded, on this machine
    plain: dict[str, Value] = field(default_factory=dict)

    def settled(self) -> Chosen:
        """The sizes that this machine really gets."""
        return Chosen(sizes=self.actual, plain=self.plain)

    def size(self, name: str) -> Expr:
        """A memory parameter in bytes; what -1 stands for is filled in."""
        if name == "wal_buffers" and self._automatic(name):
            return as_expr(16 * MiB)  # the most that -1 gives: one WAL segment
        if name == "autovacuum_work_mem" and self._automatic(name):
            return self.sizes["maintenance_work_mem"]
        return self.sizes[name]

    def count(self, name: str) -> int:
        """A parameter that counts something."""
        return int(self.plain[name])

    @property
    def hash_factor(self) -> Fraction:
        """hash_mem_multiplier, exactly."""
        return Fraction(str(self.plain["hash_mem_multiplier"]))

    def _automatic(self, name: str) -> bool:
        return self.plain.get(name) == -1


def operations(workload: Workload) -> int:
    """Memory-hungry plan nodes that each session is taken to run at the same moment."""
    return 2 if workload is Workload.OLAP else 1


def consumers(chosen: Chosen, workload: Workload) -> int:
    """How many full sets of sorts and hashes may be held at once."""
    sessions = chosen.count("max_connections") + chosen.count("max_parallel_workers")
    return sessions * operations(workload)


def ceiling(share: float) -> Expr:
    """The most that the worst case may take."""
    return MEMORY * Fraction(share).limit_denominator(1000)


def fixed_parts(chosen: Chosen, major: int) -> list[Part]:
    """Everything but the sessions' own sorts and hashes."""
    workers = chosen.count("autovacuum_max_workers")
    processes = (
        chosen.count("max_connections") + chosen.count("max_parallel_workers") + workers + AUXILIARY
    )
    vacuum = chosen.size("autovacuum_work_mem")
    if major < 17:
        vacuum = least(vacuum, VACUUM_CAP)
    return [
        Part("shared memory", _shared(chosen), "buffers, their descriptors, locks, WAL buffers"),
        Part(
            "processes",
            as_expr(processes * BACKEND),
            f"{processes} of {pretty_bytes(BACKEND)} each",
        ),
        Part("autovacuum", vacuum * workers, f"{workers} workers at autovacuum_work_mem"),
        Part("maintenance", chosen.size("maintenance_work_mem"), "one at maintenance_work_mem"),
    ]


def _shared(chosen: Chosen) -> Expr:
    processes = chosen.count("max_connections") + chosen.count("max_worker_processes")
    return total(
        chosen.size("shared_buffers") * SHARED_SHARE,
        chosen.size("wal_buffers"),
        processes * SHARED_PER_PROCESS + SHARED_FIXED,
    )


def room_for_sessions(chosen: Chosen, major: int, share: float) -> Expr:
    """Bytes under the ceiling that no other part may claim."""
    return total(ceiling(share), *(part.expr * -1 for part in fixed_parts(chosen, major)))


def draw_up(
    chosen: Chosen, *, major: int, workload: Workload, share: float, machine: Mapping[str, int]
) -> Budget | None:
    """The budget on one machine; None when its memory is unknown."""
    if "memory" not in machine:
        return None
    chosen = chosen.settled()
    parts = [
        Amount(part.name, Bytes(part.expr.evaluate(machine)), part.how)
        for part in fixed_parts(chosen, major)
    ]
    parts.insert(1, _sorts_and_hashes(chosen, workload, machine))
    most = Bytes(ceiling(share).evaluate(machine))
    return Budget(Bytes(machine["memory"]), most, tuple(parts))


def _sorts_and_hashes(chosen: Chosen, workload: Workload, machine: Mapping[str, int]) -> Amount:
    number = consumers(chosen, workload)
    each = (chosen.size("work_mem") * chosen.hash_factor).evaluate(machine)
    how = f"{number} at once, work_mem * {float(chosen.hash_factor):g} each"
    return Amount("sorts and hashes", Bytes(each * number), how)
