"""The worst case of a group on many classes, in plain integers, to find those worth a budget.

`tuning.budget` adds up expressions and words: too slow for thousands of groups on some sixty sizes
of machine. The same sum without words takes microseconds. It may differ from the budget by the
bytes that are lost in rounding; what is closer to a limit than `TOLERANCE` is left to the budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from mrtuner.catalog import parameters
from mrtuner.catalog.classes import InstanceClass
from mrtuner.catalog.families import Family
from mrtuner.formula.grammar import is_formula, parse
from mrtuner.inputs import Workload
from mrtuner.tuning.budget import (
    AUXILIARY,
    AUXILIARY_MEMORY,
    BACKEND,
    PAGE_TABLE_SHARE,
    SHARED_FIXED,
    SHARED_PER_PROCESS,
    SHARED_SHARE,
    VACUUM_CAP,
    operations,
)
from mrtuner.units import Bytes, GiB, KiB, MiB, memory_unit
from rdstune.group.request import GroupRequest, Reckoned

#: Only bounds of WAL depend on the volume, and WAL is not part of the worst case.
SOME_STORAGE: Final = Bytes(100 * GiB)
#: Relative; floors lose a few bytes of at least half a gigabyte.
TOLERANCE: Final = 1e-6
#: What the sum is made of.
_COUNTS: Final = (
    "max_connections", "max_parallel_workers", "max_worker_processes", "autovacuum_max_workers",
    "autovacuum_worker_slots",
)  # fmt: skip
_SIZES: Final = (
    "shared_buffers", "wal_buffers", "work_mem", "maintenance_work_mem", "autovacuum_work_mem",
)  # fmt: skip
_NAMES: Final = frozenset({*_COUNTS, *_SIZES, "hash_mem_multiplier"})


@dataclass(frozen=True, slots=True)
class Rough:
    """A group on one class, each the most over the range of the class's memory."""

    share: float  # of memory that the worst case takes
    shared: float  # of memory that shared memory takes


class Screening:
    """A group's values on many classes. Raises ValueError for values that are no numbers."""

    def __init__(self, values: Mapping[str, str], request: GroupRequest) -> None:
        own = {name: text for name, text in values.items() if name in _NAMES}
        self._formulas = {name: parse(text) for name, text in own.items() if is_formula(text)}
        self._numbers = {
            name: float(text) for name, text in own.items() if name not in self._formulas
        }
        self._pages = values.get("huge_pages")
        self._request = request
        self._found: dict[str, Rough] = {}

    def on(self, each: InstanceClass) -> Rough:
        """Return about what `sizes.on_class` finds on a class."""
        if each.name not in self._found:
            self._found[each.name] = self._on(each)
        return self._found[each.name]

    def _on(self, each: InstanceClass) -> Rough:
        share = shared = 0.0
        for memory, machine, usual, pages in _machines(self._request.family, each):
            numbers = {**usual, **self._numbers}
            for name, formula in self._formulas.items():
                numbers[name] = formula.evaluate(machine)
            covered = self._request.huge_pages(each, self._pages or pages) is not None
            reckoned = self._request.reckoned(each, memory)
            taken, all_ = _sums(numbers, self._request, reckoned, covered=covered)
            shared, share = max(shared, taken / memory), max(share, all_ / memory)
        return Rough(share, shared)


def _sums(
    numbers: Mapping[str, float], request: GroupRequest, reckoned: Reckoned | None, *, covered: bool
) -> tuple[float, float]:
    """Return shared memory and everything [bytes], as `tuning.budget.draw_up` counts them."""
    units = _units(request.family.major)
    size = {name: numbers[name] * units[name] for name in _SIZES}
    open_ = numbers["max_connections"] if reckoned is None else reckoned.open
    active = open_ if reckoned is None else min(open_, reckoned.active)
    helpers = numbers["max_parallel_workers"]
    workers = numbers["autovacuum_max_workers"]
    workers = min(workers, numbers.get("autovacuum_worker_slots", workers))
    wal, vacuum = size["wal_buffers"], size["autovacuum_work_mem"]
    if numbers["wal_buffers"] == -1:
        wal = min(16 * MiB, max(64 * KiB, size["shared_buffers"] / 32))
    if numbers["autovacuum_work_mem"] == -1:
        vacuum = size["maintenance_work_mem"]
    if request.family.major < 17:
        vacuum = min(vacuum, VACUUM_CAP)
    shared = size["shared_buffers"] * float(SHARED_SHARE) + wal + SHARED_FIXED
    shared += (open_ + numbers["max_worker_processes"]) * SHARED_PER_PROCESS
    processes = open_ + helpers + workers
    all_ = shared + processes * BACKEND + AUXILIARY_MEMORY
    all_ += vacuum * workers + size["maintenance_work_mem"]
    each = size["work_mem"] * numbers["hash_mem_multiplier"]
    all_ += each * (active + helpers) * operations(request.workload)
    if not covered:
        all_ += shared * (processes + AUXILIARY) / PAGE_TABLE_SHARE
    return shared, all_


@cache
def _units(major: int) -> Mapping[str, int]:
    known = parameters(major)
    return {name: memory_unit(known[name].unit or "") or 1 for name in _SIZES}


@lru_cache(maxsize=4096)
def _machines(
    family: Family, each: InstanceClass
) -> tuple[tuple[Bytes, Mapping[str, int], Mapping[str, float], str | None], ...]:
    """Return for each size of a class's memory: the size, its variables, and what is in force
    where the group sets nothing: the numbers, and huge_pages.
    """
    request = GroupRequest(
        family=family, workload=Workload.MIXED, connections=None, storage=SOME_STORAGE
    )
    estimate, found = request.memory_of(each), []
    for memory in dict.fromkeys((estimate.low, estimate.value, estimate.high)):
        running, _ = request.in_force(each, memory)
        numbers = {name: float(running[name]) for name in _NAMES if running.get(name)}
        found.append((memory, request.machine(each, memory), numbers, running.get("huge_pages")))
    return tuple(found)
