"""What kind of table vacuum has to deal with, from measured rates."""

from __future__ import annotations

from typing import Final

from mrtuner.units import pretty_duration
from mrtuner.vacuum.model import Rates, Table, TableKind
from mrtuner.wording import plural_was

#: Fewer rows written than this say nothing about a table.
FEW: Final = 20
#: Rows written a day, as a share of live rows and as a number, below both of which a table is
#: static: a small share of a huge table is many rows.
STILL: Final = 0.01
STILL_ROWS: Final = 100_000
#: Updates and deletes per insert, below which a table only grows.
ONLY_GROWS: Final = 0.01
#: A row that lives no longer than this is a queue entry [s].
QUEUE_LIFE: Final = 15 * 60.0
#: A row that lives no longer than this is short-lived [s].
SHORT_LIFE: Final = 7 * 86_400.0
#: Rows that vanished without a DELETE count if they are half of those inserted during a watch and a
#: fifth of all rows before, or half of the present ones: the server only estimates live rows.
_WENT: Final = 0.5
_OF_ALL: Final = 0.2
_DAY: Final = 86_400.0


def lifetime(table: Table, rates: Rates) -> float | None:
    """Return a row's average life [s]: live rows over deletes per second (Little's law).

    None if nothing is deleted. Valid for a table that neither grows nor shrinks much.
    """
    return table.live / rates.deletes if rates.deletes else None


def classify(table: Table, rates: Rates, highest: Rates | None = None) -> tuple[TableKind, str]:
    """Return the kind, and the figures behind it, in words. The bounds are our judgement.

    `highest` are its rates if it is as young as it may be; None: it is as old as the counters.
    """
    kind, because = _kind(table, rates)
    if highest is None or (kind in _WITHOUT_ADVICE and _kind(table, highest)[0] is kind):
        return kind, because
    return TableKind.UNKNOWN, "it may have been made long after statistics began"


#: Kinds for which no rate matters.
_WITHOUT_ADVICE: Final = frozenset({TableKind.UNKNOWN, TableKind.STATIC, TableKind.RELOADED})


def _kind(table: Table, rates: Rates) -> tuple[TableKind, str]:
    if not rates.seconds:
        return TableKind.UNKNOWN, "its counters were reset during the watch"
    if not rates.events:
        return TableKind.STATIC, "no rows were written"
    written = rates.inserts + rates.updates + rates.deletes
    if written * _DAY < min(STILL * table.live, STILL_ROWS):
        share = written * _DAY / table.live
        return TableKind.STATIC, f"{share:.2%} of its rows are written in a day"
    if rates.events < FEW:
        return TableKind.UNKNOWN, f"only {plural_was(rates.events, 'row')} written: watch longer"
    return _busy(table, rates)


def _busy(table: Table, rates: Rates) -> tuple[TableKind, str]:
    if rates.updates + rates.deletes <= ONLY_GROWS * rates.inserts:
        if rates.truncated:
            return TableKind.RELOADED, f"{rates.inserts:,.3g} inserts/s, with a TRUNCATE in between"
        if gone := _gone(table, rates):
            return TableKind.RELOADED, (
                f"{rates.inserts:,.3g} inserts/s and almost no deletes, yet {gone:,.0f} rows are "
                "gone: truncated (or their INSERT was rolled back)"
            )
        return (
            TableKind.APPEND_ONLY,
            f"{rates.inserts:,.3g} inserts/s, almost no updates or deletes",
        )
    life = lifetime(table, rates)
    if life is not None and life <= SHORT_LIFE and rates.deletes >= rates.inserts / 2:
        kind = TableKind.QUEUE if life <= QUEUE_LIFE else TableKind.SHORT_LIVED
        return kind, f"a row lives about {pretty_duration(life)}"
    if rates.updates > rates.inserts + rates.deletes:
        each = table.live / rates.updates
        return (
            TableKind.LONG_LIVED,
            f"{_updates(rates)}; a row is updated every {pretty_duration(each)}",
        )
    return TableKind.MIXED, (
        f"{rates.inserts:,.3g} inserts, {rates.updates:,.3g} updates and "
        f"{rates.deletes:,.3g} deletes per second"
    )


def _gone(table: Table, rates: Rates) -> float:
    """Rows that vanished without a DELETE, during the watch or since the reset; 0 if too few."""
    watched = rates.vanished * rates.seconds
    inserted = rates.inserts * rates.seconds
    if watched >= max(FEW, _WENT * inserted, _OF_ALL * (table.live + watched)):
        return watched
    ever = table.inserted - table.deleted - table.live
    return float(ever) if ever >= max(FEW, _WENT * table.live) else 0.0


def _updates(rates: Rates) -> str:
    hot = "" if rates.hot_share is None else f", {rates.hot_share:.0%} of them HOT"
    return f"{rates.updates:,.3g} updates/s{hot}"
