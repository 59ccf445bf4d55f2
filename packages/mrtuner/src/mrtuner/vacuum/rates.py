"""Rates of every table: sums over the intervals between samples, without gaps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeVar

from mrtuner.counter_resets import was_reset
from mrtuner.vacuum.model import Rates, Sample, Table

_Number = TypeVar("_Number", int, float)
#: A table that has lived through this share of the counters' time has rates that are about right.
_YOUNG: Final = 0.5
_COUNTERS = ("inserted", "updated", "hot_updated", "deleted", "vacuums")


@dataclass(frozen=True, slots=True)
class _Growth:
    """What one table did in one interval of `seconds`."""

    seconds: float
    inserted: int
    updated: int
    hot_updated: int
    deleted: int
    vacuums: int
    newpage_updated: int | None
    vacuum_seconds: float | None
    toast_inserted: int
    toast_deleted: int
    vanished: int  # live rows missing after inserts and deletes; below 0 if the estimate errs
    truncated: int  # how often it was seen to get an empty file


def since_reset(sample: Sample) -> dict[int, Rates]:
    """Return rates by oid over the whole time that the counters cover.

    If somebody has reset all statistics of the server but those of the database, rates err high.
    """
    window = max(1.0, sample.moment.counted_for)
    return {table.oid: _rates(_counted(table, window), 0) for table in sample.tables}


def since_made(sample: Sample) -> dict[int, Rates]:
    """Return by oid the highest rates of tables that may be much younger than the counters.

    A table has lived through a share of the transaction IDs used since the counters began. These
    are at most those since the oldest table was made and, after a reset, the transactions that all
    databases counted. So the share is a lower bound, if IDs are used evenly and few by savepoints.
    """
    moment = sample.moment
    used = max((table.made or 0 for table in sample.tables), default=0)
    if moment.reset_at is not None:
        used = min(used, moment.transactions + (moment.elsewhere or 0))
    window = max(1.0, moment.counted_for)
    return {
        table.oid: _rates(_counted(table, window * max(1, table.made) / used), 0)
        for table in sample.tables
        if table.made is not None and 0 <= table.made < _YOUNG * used
    }


def watched(samples: Sequence[Sample]) -> dict[int, Rates]:
    """Return rates by oid over the intervals in which no counter fell.

    A table that appeared counts from when it was first seen; one that disappeared is left out.
    """
    grown: dict[int, list[_Growth]] = {table.oid: [] for table in samples[-1].tables}
    gaps = dict.fromkeys(grown, 0)
    for before, after in pairwise(samples):
        seconds = after.moment.at - before.moment.at
        reset = after.moment.reset_at != before.moment.reset_at  # all counters of the database
        earlier = {table.oid: table for table in before.tables}
        for table in after.tables:
            was = earlier.get(table.oid)
            if table.oid not in grown or was is None:
                continue
            if reset or _fell(was, table):
                gaps[table.oid] += 1
            else:
                grown[table.oid].append(_growth(was, table, seconds))
    return {oid: _rates(_sum(found), gaps[oid]) for oid, found in grown.items()}


def of_counts(
    seconds: float, *, inserted: int, updated: int, hot_updated: int, deleted: int, vacuums: int,
    toast_inserted: int, toast_deleted: int,
) -> Rates:  # fmt: skip
    """Return the rates of a table whose counters grew by these amounts in `seconds`."""
    grown = _Growth(
        seconds=seconds, inserted=inserted, updated=updated, hot_updated=hot_updated,
        deleted=deleted, vacuums=vacuums, newpage_updated=None, vacuum_seconds=None,
        toast_inserted=toast_inserted, toast_deleted=toast_deleted, vanished=0, truncated=0,
    )  # fmt: skip
    return _rates(grown, 0)


def _fell(before: Table, after: Table) -> bool:
    """Whether the table's own counters were reset, or those of its TOAST table."""
    if was_reset(*([getattr(one, name) for name in _COUNTERS] for one in (before, after))):
        return True
    toasts = (before.toast, after.toast)
    return all(toasts) and was_reset(*([one.inserted, one.deleted] for one in toasts if one))


def _counted(table: Table, seconds: float) -> _Growth:
    """All that its counters have."""
    toast = table.toast
    return _Growth(
        seconds=seconds,
        inserted=table.inserted,
        updated=table.updated,
        hot_updated=table.hot_updated,
        deleted=table.deleted,
        vacuums=table.vacuums,
        newpage_updated=table.newpage_updated,
        vacuum_seconds=table.vacuum_seconds,
        toast_inserted=toast.inserted if toast else 0,
        toast_deleted=toast.deleted if toast else 0,
        vanished=_balance(table),
        truncated=0,
    )


def _growth(before: Table, after: Table, seconds: float) -> _Growth:
    counted = {name: getattr(after, name) - getattr(before, name) for name in _COUNTERS}
    toast, was = after.toast, before.toast
    return _Growth(
        seconds=seconds,
        **counted,
        newpage_updated=_less(after.newpage_updated, before.newpage_updated),
        vacuum_seconds=_less(after.vacuum_seconds, before.vacuum_seconds),
        toast_inserted=(toast.inserted if toast else 0) - (was.inserted if was else 0),
        toast_deleted=(toast.deleted if toast else 0) - (was.deleted if was else 0),
        vanished=_balance(after) - _balance(before),
        truncated=int(_truncated(before, after)),
    )


def _truncated(before: Table, after: Table) -> bool:
    """Whether it has a new file of unknown size; VACUUM FULL and CLUSTER record a size.

    The counters may not show this: if a session truncates and inserts in two transactions within
    a second, n_live_tup has both the old rows and the new. Source: AtEOXact_PgStat_Relations,
    pgstat_relation.c (the second transaction's truncdropped replaces the first's).
    """
    return after.relfilenode != before.relfilenode and after.pages == 0


def _balance(table: Table) -> int:
    """Rows in its counters but not in its pages: truncated, or never committed."""
    return table.inserted - table.deleted - table.live


def _less(after: _Number | None, before: _Number | None) -> _Number | None:
    return None if after is None else after - (before or 0)


def _sum(grown: Sequence[_Growth]) -> _Growth:
    return _Growth(
        seconds=sum(one.seconds for one in grown),
        inserted=sum(one.inserted for one in grown),
        updated=sum(one.updated for one in grown),
        hot_updated=sum(one.hot_updated for one in grown),
        deleted=sum(one.deleted for one in grown),
        vacuums=sum(one.vacuums for one in grown),
        newpage_updated=_known(one.newpage_updated for one in grown),
        vacuum_seconds=_known(one.vacuum_seconds for one in grown),
        toast_inserted=sum(one.toast_inserted for one in grown),
        toast_deleted=sum(one.toast_deleted for one in grown),
        vanished=sum(one.vanished for one in grown),
        truncated=sum(one.truncated for one in grown),
    )


def _rates(grown: _Growth, gaps: int) -> Rates:
    per = 1 / grown.seconds if grown.seconds else 0.0
    return Rates(
        seconds=grown.seconds,
        events=grown.inserted + grown.updated + grown.deleted,
        inserts=grown.inserted * per,
        updates=grown.updated * per,
        deletes=grown.deleted * per,
        hot_share=_share(grown.hot_updated, grown.updated),
        newpage_share=_share(grown.newpage_updated, grown.updated),
        vacuums=grown.vacuums,
        vacuum_seconds=_share(grown.vacuum_seconds, grown.vacuums),
        toast_inserts=grown.toast_inserted * per,
        toast_deletes=grown.toast_deleted * per,
        gaps=gaps,
        vanished=max(0.0, grown.vanished * per),
        truncated=grown.truncated,
    )


def _known(values: Iterable[_Number | None]) -> _Number | None:
    """The sum, or None if any is unknown or there are none."""
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if known and len(known) == len(found) else None


def _share(part: float | None, whole: int) -> float | None:
    return None if part is None or not whole else part / whole


#: Rates of a table that was not observed.
UNSEEN: Final = _rates(_sum([]), 0)
