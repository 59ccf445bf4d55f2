"""From two samples of a source to the rows worth keeping.

A counter is stored as its growth since the sample before, so that any engine adds it up with SUM.
Growth that cannot be known, as after a reset or when another server answers, is null, never zero
and never negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mrtuner.counter_resets import was_reset
from mrtuner.history.recording.sampler import DECIMALS
from mrtuner.history.recording.source import Kind

if TYPE_CHECKING:
    from mrtuner.history.recording.sampler import Row, Values
    from mrtuner.history.recording.source import Source

#: What a row is about: the values of its key columns.
Key = tuple[Any, ...]


def key_of(source: Source, row: Row) -> Key:
    """The values of the row's key columns."""
    return tuple(
        value
        for column, value in zip(source.columns, row.values, strict=True)
        if column.kind is Kind.KEY
    )


def by_key(source: Source, rows: Iterable[Row]) -> dict[Key, Row]:
    """Return the rows of a sample by key; of two rows with the same key, the last."""
    return {key_of(source, row): row for row in rows}


def grown(
    source: Source, before: Mapping[Key, Row] | None, after: Mapping[Key, Row]
) -> Iterator[Values]:
    """Yield the values to store: growth of counters, the rest as it is.

    `before` is None if there is nothing to compare with. A row that did not change is left out,
    unless the source has only one row. If the source has gauges or texts, a row that has
    disappeared is yielded once more, with nulls.
    """
    single = not source.of(Kind.KEY)
    states = source.of(Kind.GAUGE, Kind.TEXT)
    renamed = _renamed(source, before or {}, after)
    for key, row in after.items():
        if before is None:
            values = _unknown(source, row)
            if single or states:
                yield values
        elif single or row != before.get(key):
            yield _difference(source, before.get(key) or renamed.get(key), row)
    if states and not single and before:
        yield from (_gone(source, before[key]) for key in before.keys() - after.keys())


def _renamed(
    source: Source, before: Mapping[Key, Row], after: Mapping[Key, Row]
) -> Mapping[Key, Row]:
    """Return by their new keys the rows that were there under another one: their counters go on.

    They are known by the keys that the source says stay the same, else by when they were reset.
    """
    new = after.keys() - before.keys()
    if not new:
        return {}
    places = [
        place for place, column in enumerate(source.of(Kind.KEY)) if column.name in source.same
    ]

    def same(key: Key, row: Row) -> object:
        return tuple(key[place] for place in places) if places else row.reset

    gone = [
        (same(key, row), row) for key, row in before.items()
        if key not in after or same(key, after[key]) != same(key, row)
    ]  # fmt: skip
    known = {one: row for one, row in gone if one is not None}
    if len(known) < len(gone):  # several are alike, as if all were reset at once
        return {}
    found = ((key, same(key, after[key])) for key in new)
    return {key: known[one] for key, one in found if one in known}


def _gone(source: Source, row: Row) -> Values:
    return tuple(
        value if column.kind is Kind.KEY else None
        for column, value in zip(source.columns, row.values, strict=True)
    )


def _unknown(source: Source, row: Row) -> Values:
    return tuple(
        None if column.kind is Kind.COUNTER else value
        for column, value in zip(source.columns, row.values, strict=True)
    )


def _difference(source: Source, before: Row | None, after: Row) -> Values:
    """Return the growth from one row to the other.

    The counters of a new row have grown from zero. If one counter went down, all counters of the
    row were reset.
    """
    if before is None:
        return after.values
    if _was_reset(source, before, after):
        return _unknown(source, after)
    return tuple(
        _growth(old, new) if column.kind is Kind.COUNTER else new
        for column, old, new in zip(source.columns, before.values, after.values, strict=True)
    )


def _was_reset(source: Source, before: Row, after: Row) -> bool:
    """Return whether counters were reset: one went down, or the time of the reset changed."""
    return before.reset != after.reset or was_reset(
        *(counters_of(source, row) for row in (before, after))
    )


def counters_of(source: Source, row: Row) -> list[Any]:
    """Return the values of the row's counters, in the order of the columns."""
    return [
        value
        for column, value in zip(source.columns, row.values, strict=True)
        if column.kind is Kind.COUNTER
    ]


def _growth(before: Any, after: Any) -> Any:
    """Return the difference, of floats with their number of decimals; None if one is unknown."""
    if before is None or after is None:
        return None
    return round(after - before, DECIMALS) if isinstance(after, float) else after - before
