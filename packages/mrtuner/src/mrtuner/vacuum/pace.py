"""Time to vacuum dead rows, compared with the time in which they are produced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, inf
from typing import Final

from mrtuner.vacuum.model import Rates, Table, ToastTable, Work

#: The server's defaults, if pg_settings does not show a value. Source: guc_parameters.dat.
_SCALE, _THRESHOLD, _INSERTS = 0.2, 50.0, 1000.0
#: With one of these of its own, a table's vacuum has its limit for itself.
#: Source: table_recheck_autovac (at_dobalance), autovacuum.c.
_OWN_COST: Final = frozenset({"autovacuum_vacuum_cost_delay", "autovacuum_vacuum_cost_limit"})
#: A TOAST table's index entry is about a hundredth the size of the chunk it points to.
_TOAST_INDEX: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSettings:
    """What the cost model charges, and how fast the cost may be spent.

    Source: documentation, Cost-based Vacuum Delay; vacuumlazy.c for what is charged.
    """

    hit: float
    miss: float
    dirty: float
    limit: float
    delay_ms: float

    @property
    def speed(self) -> float | None:
        """Cost units a second, counting only the sleeps; None: no throttling."""
        return self.limit / self.delay_ms * 1000 if self.delay_ms > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heap:
    """What a vacuum has to scan of a TOAST table; a `Table` says the same of itself."""

    pages: int
    index_pages: int
    indexes: int
    rows: int


def heap_of_toast(toast: ToastTable) -> Heap:
    """The TOAST table's heap; the size of its one index is estimated."""
    index = max(1, round(toast.pages * _TOAST_INDEX))
    return Heap(pages=toast.pages, index_pages=index, indexes=1, rows=toast.live)


def cost_settings(settings: Mapping[str, str], options: Mapping[str, str]) -> CostSettings:
    """The cost settings autovacuum uses for a table: its own take precedence over the server's.

    -1 stands for the setting of manual VACUUM, of the limit 0 too. Source: vacuum.c,
    VacuumUpdateCosts.
    """

    def one(name: str, default: float, least: float) -> float:
        for source in (options, settings):
            value = float(source.get(f"autovacuum_{name}", -1))
            if value >= least:
                return value
        return float(settings.get(name, default))

    return CostSettings(
        hit=float(settings.get("vacuum_cost_page_hit", 1)),
        miss=float(settings.get("vacuum_cost_page_miss", 2)),
        dirty=float(settings.get("vacuum_cost_page_dirty", 20)),
        limit=one("vacuum_cost_limit", 200, least=1),
        delay_ms=one("vacuum_cost_delay", 2, least=0),
    )


def trigger(rows: int, settings: Mapping[str, str], options: Mapping[str, str]) -> float:
    """Dead rows that start an autovacuum; capped in 18 and later.

    Source: relation_needs_vacanalyze, autovacuum.c.
    """
    scale = _value("autovacuum_vacuum_scale_factor", settings, options, _SCALE)
    wanted = _value("autovacuum_vacuum_threshold", settings, options, _THRESHOLD) + scale * rows
    most = _value("autovacuum_vacuum_max_threshold", settings, options, -1)
    return min(wanted, most) if most >= 0 else wanted


def unfrozen_rows(table: Table) -> float:
    """The rows that count for `insert_trigger`: since 18, not those of frozen pages."""
    frozen = min(table.frozen_pages or 0, table.pages)
    return table.rows * (1 - frozen / table.pages) if frozen else table.rows


def insert_trigger(rows: float, settings: Mapping[str, str], options: Mapping[str, str]) -> float:
    """Inserts that start an autovacuum of a heap of so many rows; infinite if none do.

    Source: relation_needs_vacanalyze, autovacuum.c.
    """
    threshold = _value("autovacuum_vacuum_insert_threshold", settings, options, _INSERTS)
    if threshold < 0:
        return inf
    scale = _value("autovacuum_vacuum_insert_scale_factor", settings, options, _SCALE)
    return threshold + scale * rows


def _value(
    name: str, settings: Mapping[str, str], options: Mapping[str, str], default: float
) -> float:
    return float(options.get(name, settings.get(name, default)))


def touched(pages: float, rows: float) -> float:
    """Pages that contain this many rows, spread at random."""
    return pages * (1 - exp(-rows / pages)) if pages > 0 else 0.0


def cost(heap: Heap | Table, dead: float, prices: CostSettings) -> float:
    """Cost of a vacuum that removes `dead` rows, with every page read from outside shared_buffers.

    Heap pages with dead rows are read and dirtied, then visited again for their line pointers;
    every index is read completely. Pages that the visibility map lets it skip cost nothing.
    """
    dirty = touched(heap.pages, dead)
    first = dirty * (prices.miss + prices.dirty)
    if not heap.indexes:
        return first
    entries = touched(heap.index_pages, dead * heap.indexes)
    return first + dirty * prices.hit + heap.index_pages * prices.miss + entries * prices.dirty


def work(
    heap: Heap | Table,
    rate: float,
    settings: Mapping[str, str],
    options: Mapping[str, str],
    measured: float | None = None,
) -> Work:
    """One round of vacuum for a table that produces `rate` dead rows a second.

    Autovacuum checks once per autovacuum_naptime, so no round is shorter than that.
    """
    starts = trigger(heap.rows, settings, options)
    if rate <= 0:
        return Work(trigger=starts, produce=None, vacuum=None, measured=measured, cost=0.0)
    prices = cost_settings(settings, options)
    nap = float(settings.get("autovacuum_naptime", 60))
    produce = max(nap, starts / rate)
    price = cost(heap, rate * produce, prices)
    spent = price / prices.speed if prices.speed else 0.0
    return Work(
        trigger=starts,
        produce=produce,
        vacuum=spent,
        measured=measured,
        cost=price,
        shared=_OWN_COST.isdisjoint(options),
    )


def work_of(
    table: Table,
    rates: Rates,
    settings: Mapping[str, str],
    options: Mapping[str, str] | None = None,
) -> Work:
    """The main table's work, with other options than its own if given."""
    own = table.options if options is None else options
    return work(table, rates.dead, settings, own, rates.vacuum_seconds)


def work_of_toast(
    table: Table,
    rates: Rates,
    settings: Mapping[str, str],
    options: Mapping[str, str] | None = None,
) -> Work | None:
    """The TOAST table's work, with other options than those in force if given."""
    if table.toast is None:
        return None
    own = toast_options(table) if options is None else options
    return work(heap_of_toast(table.toast), rates.toast_deletes, settings, own)


def toast_options(table: Table) -> Mapping[str, str]:
    """The TOAST table's own parameters; if it has none at all, those of the main table.

    Source: do_autovacuum and table_recheck_autovac, autovacuum.c.
    """
    return (table.toast.options if table.toast else {}) or table.options
