"""What a table is to vacuum, from its measured rates."""

from __future__ import annotations

from typing import Final

from mrtuner.vacuum.model import Kind, Rates, Table

#: Fewer rows written than that say nothing about a table.
FEW: Final = 20
#: Rows written a day, as a share of live rows, below which a table stands still.
STILL: Final = 0.01
#: Updates and deletes for each insert, below which a table only grows.
ONLY_GROWS: Final = 0.01
#: A row that lives no longer than this is an entry of a queue [s].
QUEUE_LIFE: Final = 15 * 60.0
#: A row that lives no longer than this is short-lived [s].
SHORT_LIFE: Final = 7 * 86_400.0
#: Rows that went without a DELETE count from half of those inserted during a watch and a fifth of
#: those there were, or from half of those there are: the server only estimates live rows.
_WENT: Final = 0.5
_OF_ALL: Final = 0.2
_DAY: Final = 86_400.0


def lifetime(table: Table, rates: Rates) -> float | None:
    """How long a row lives on average [s], live rows over deletes a second (Little's law).

    None where nothing is deleted. It holds for a table that neither grows nor shrinks much.
    """
    return table.live / rates.deletes if rates.deletes else None


def classify(table: Table, rates: Rates) -> tuple[Kind, str]:
    """The kind, and the figures it rests on, in words. The bounds are our judgement."""
    if not rates.seconds:
        return Kind.UNKNOWN, "its counters were reset while it was watched"
    if not rates.events:
        return Kind.STATIC, "no row was written"
    written = rates.inserts + rates.updates + rates.deletes
    if written * _DAY < STILL * table.live:
        share = written * _DAY / table.live
        return Kind.STATIC, f"{share:.2%} of its rows are written in a day"
    if rates.events < FEW:
        return Kind.UNKNOWN, f"only {rates.events} rows were written: watch longer"
    return _busy(table, rates)


def _busy(table: Table, rates: Rates) -> tuple[Kind, str]:
    if rates.updates + rates.deletes <= ONLY_GROWS * rates.inserts:
        if rates.truncated:
            return Kind.RELOADED, f"{rates.inserts:,.3g} inserts/s, and a TRUNCATE between them"
        if gone := _gone(table, rates):
            return Kind.RELOADED, (
                f"{rates.inserts:,.3g} inserts/s and hardly a delete, yet {gone:,.0f} rows are "
                "gone: truncated (or their INSERT was rolled back)"
            )
        return Kind.APPEND_ONLY, f"{rates.inserts:,.3g} inserts/s, hardly an update or delete"
    life = lifetime(table, rates)
    if life is not None and life <= SHORT_LIFE and rates.deletes >= rates.inserts / 2:
        kind = Kind.QUEUE if life <= QUEUE_LIFE else Kind.SHORT_LIVED
        return kind, f"a row lives about {duration(life)}"
    if rates.updates > rates.inserts + rates.deletes:
        each = table.live / rates.updates
        return Kind.LONG_LIVED, f"{_updates(rates)}; a row is updated every {duration(each)}"
    return Kind.MIXED, (
        f"{rates.inserts:,.3g} inserts, {rates.updates:,.3g} updates and "
        f"{rates.deletes:,.3g} deletes a second"
    )


def _gone(table: Table, rates: Rates) -> float:
    """Rows that went without a DELETE, while it was watched or since the reset; 0 if too few."""
    watched = rates.vanished * rates.seconds
    inserted = rates.inserts * rates.seconds
    if watched >= max(FEW, _WENT * inserted, _OF_ALL * (table.live + watched)):
        return watched
    ever = table.inserted - table.deleted - table.live
    return float(ever) if ever >= max(FEW, _WENT * table.live) else 0.0


def _updates(rates: Rates) -> str:
    hot = "" if rates.hot_share is None else f", {rates.hot_share:.0%} of them HOT"
    return f"{rates.updates:,.3g} updates/s{hot}"


def duration(seconds: float) -> str:
    """A time for people, two or three figures.

    >>> duration(90), duration(7200), duration(3 * 86400)
    ('90 s', '2 h', '3 d')
    """
    if seconds < 120:
        return f"{seconds:.3g} s"
    for size, unit in ((86_400 * 365.25, "years"), (86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size or unit == "min":
            return f"{seconds / size:,.3g} {unit}"
    raise AssertionError(seconds)
