"""The worst case of a group on many classes, in plain integers, to find those worth a budget.

`tuning.budget` adds up expressions and words: too slow for thousands of groups on some sixty sizes
of machine. The same sum without words takes microseconds. It may differ from the budget by the
bytes that are lost in rounding; what is closer to a limit than `TOLERANCE` is left to the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from mrtuner.catalog import parameters
from mrtuner.catalog.classes import InstanceClass
from mrtuner.formula.rds_formula import is_formula, parse
from mrtuner.tuning.budget import (
    AUXILIARY,
    AUXILIARY_MEMORY,
    BACKEND,
    PAGE_TABLE_SHARE,
    SHARED_FIXED,
    SHARED_PER_PROCESS,
    SHARED_SHARE,
    USUAL_IO_WORKERS,
    VACUUM_CAP,
    operations,
)
from mrtuner.units import Bytes, GiB, KiB, MiB, memory_unit
from rdstune.group.request import GroupRequest, Reckoned

#: Only bounds of WAL depend on the volume, and WAL is not part of the worst case.
SOME_STORAGE: Final = Bytes(100 * GiB)
#: Relative; floors lose a few bytes of at least half a gigabyte.
TOLERANCE: Final = 1e-6
#: What the sum is made of, in the order in which `_sums` takes it.
_COUNTS: Final = (
    "max_connections", "max_parallel_workers", "max_worker_processes", "autovacuum_max_workers",
    "autovacuum_worker_slots", "io_workers", "hash_mem_multiplier",
)  # fmt: skip
_SIZES: Final = (
    "shared_buffers", "wal_buffers", "work_mem", "maintenance_work_mem", "autovacuum_work_mem",
)  # fmt: skip
_PLACES: Final = {name: place for place, name in enumerate((*_COUNTS, *_SIZES))}


@dataclass(frozen=True, slots=True)
class Rough:
    """A group on one class, each the most over the range of the class's memory."""

    share: float  # of memory that the worst case takes
    shared: float  # of memory that shared memory takes


@dataclass(frozen=True, slots=True, eq=False)
class _Point:
    """One size of a class's memory, and what is in force there where a group sets nothing."""

    memory: Bytes
    machine: Mapping[str, int]  # the variables of formulas
    numbers: tuple[float, ...]  # by place; -1 where the version has no such parameter
    huge_pages: str | None
    reckoned: Reckoned | None


class Screening:
    """A group's values on many classes. Raises ValueError for values that are no numbers."""

    def __init__(self, values: Mapping[str, str], request: GroupRequest) -> None:
        own = [(_PLACES[name], text) for name, text in values.items() if name in _PLACES]
        self._formulas = [(place, text) for place, text in own if is_formula(text)]
        self._numbers = [(place, float(text)) for place, text in own if not is_formula(text)]
        self._pages = values.get("huge_pages")
        self._request = request
        self._units = _units(request.family.major)
        self._points = _POINTS.setdefault(request, {})
        self._found: dict[str, Rough] = {}

    def on(self, each: InstanceClass) -> Rough:
        """Return about what `sizes.on_class` finds on a class."""
        if each.name not in self._found:
            self._found[each.name] = self._on(each)
        return self._found[each.name]

    def _on(self, each: InstanceClass) -> Rough:
        if each.name not in self._points:
            self._points[each.name] = tuple(_points_of(self._request, each))
        share = shared = 0.0
        may_cover = self._request.huge_pages(each, None) is not None
        for point in self._points[each.name]:
            numbers = list(point.numbers)
            for place, number in self._numbers:
                numbers[place] = number
            for place, text in self._formulas:
                numbers[place] = _result(text, point)
            covered = may_cover and (self._pages or point.huge_pages) != "off"
            taken, all_ = self._sums(numbers, point.reckoned, covered=covered)
            shared, share = max(shared, taken / point.memory), max(share, all_ / point.memory)
        return Rough(share, shared)

    def _sums(
        self, numbers: list[float], reckoned: Reckoned | None, *, covered: bool
    ) -> tuple[float, float]:
        """Return shared memory and everything [bytes], as `tuning.budget.draw_up` counts them."""
        (connections, helpers, processes, workers, slots, readers, multiplier,
         buffers, wal, work, maintenance, vacuum) = numbers  # fmt: skip
        units = self._units
        open_ = active = connections
        if reckoned is not None:
            open_ = reckoned.open
            active = min(open_, reckoned.active)
        helpers = min(helpers, processes)
        if slots >= 0:
            workers = min(workers, slots)
        buffers *= units[0]
        wal = min(16 * MiB, max(64 * KiB, buffers / 32)) if wal == -1 else wal * units[1]
        maintenance *= units[3]
        vacuum = maintenance if vacuum == -1 else vacuum * units[4]
        if self._request.family.major < 17:
            vacuum = min(vacuum, VACUUM_CAP)
        shared = buffers * _SHARED_SHARE + wal + SHARED_FIXED
        shared += (open_ + processes) * SHARED_PER_PROCESS
        backends = open_ + helpers + workers + max(0, readers - USUAL_IO_WORKERS)
        all_ = shared + backends * BACKEND + AUXILIARY_MEMORY
        all_ += vacuum * workers + maintenance
        each = work * units[2] * multiplier
        all_ += each * (active + helpers) * operations(self._request.workload)
        if not covered:
            all_ += shared * (backends + AUXILIARY) / PAGE_TABLE_SHARE
        return shared, all_


_SHARED_SHARE: Final = float(SHARED_SHARE)


@cache
def _units(major: int) -> tuple[int, ...]:
    known = parameters(major)
    return tuple(memory_unit(known[name].unit or "") or 1 for name in _SIZES)


#: The points of each request, by class: there are two requests for each family.
_POINTS: Final[dict[GroupRequest, dict[str, tuple[_Point, ...]]]] = {}


def _points_of(request: GroupRequest, each: InstanceClass) -> Iterator[_Point]:
    """Yield a class's sizes of memory."""
    estimate = request.memory_of(each)
    for memory in dict.fromkeys((estimate.low, estimate.value, estimate.high)):
        running, _ = request.in_force(each, memory)
        yield _Point(
            memory=memory,
            machine=request.machine(each, memory),
            numbers=tuple(float(running.get(name) or -1) for name in _PLACES),
            huge_pages=running.get("huge_pages"),
            reckoned=request.reckoned(each, memory),
        )


@lru_cache(maxsize=16_384)
def _result(text: str, point: _Point) -> int:
    return parse(text).evaluate(point.machine)
