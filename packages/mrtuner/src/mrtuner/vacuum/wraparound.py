"""How far the transaction and multixact counters are from a forced vacuum and from the stop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mrtuner.vacuum.model import Counter, Moment, Picture, WraparoundDistance

#: Half of the 32-bit circle: anything older would appear to be in the future.
_CIRCLE: Final = 2**31
#: This far before it, the server refuses to assign more. Source: varsup.c, SetTransactionIdLimit:
#: 3 million since 14, 1 million in 13; multixact.c, SetMultiXactIdLimit: the same.
_MARGIN: Final = 3_000_000
_MARGIN_13: Final = 1_000_000


def wraparound(picture: Picture) -> tuple[WraparoundDistance, ...]:
    """The database nearest to each limit, with the time left if the pace is known."""
    return tuple(_each(picture))


def stops_at(major: int) -> int:
    """The age at which the server assigns no more transaction or multixact IDs."""
    return _CIRCLE - (_MARGIN if major >= 14 else _MARGIN_13)


def _each(picture: Picture) -> Iterator[WraparoundDistance]:
    if not picture.databases:
        return
    stop = stops_at(picture.major)
    moments = [sample.moment for sample in picture.samples]
    name, age, _ = max(picture.databases, key=lambda one: one[1])
    forced = _setting(picture.settings, "autovacuum_freeze_max_age", 200_000_000)
    pace, certainty = _transactions(moments)
    yield _one(
        "transaction IDs", name, age, forced=forced, stop=stop, pace=pace, certainty=certainty
    )
    name, _, age = max(picture.databases, key=lambda one: one[2])
    forced = _setting(picture.settings, "autovacuum_multixact_freeze_max_age", 400_000_000)
    pace, certainty = _multixacts(moments)
    yield _one("multixact IDs", name, age, forced=forced, stop=stop, pace=pace, certainty=certainty)


def _one(
    what: Counter,
    database: str,
    age: int,
    *,
    forced: int,
    stop: int,
    pace: float | None,
    certainty: str,
) -> WraparoundDistance:
    def until(limit: int) -> float | None:
        return max(0, limit - age) / pace if pace else None

    return WraparoundDistance(
        what=what,
        database=database,
        age=age,
        forced_at=forced,
        stops_at=stop,
        pace=pace,
        certainty=certainty,
        to_forced=until(forced),
        to_stop=until(stop),
    )


def _setting(settings: Mapping[str, str], name: str, default: int) -> int:
    return int(settings.get(name, default))


def _transactions(moments: Sequence[Moment]) -> tuple[float | None, str]:
    """IDs used per second: measured over a watch, else bounded by the transactions counted."""
    first, last = moments[0], moments[-1]
    if last.at > first.at:
        return (last.next_xid - first.next_xid) / (last.at - first.at), "measured"
    window = last.at - (last.reset_at or last.started_at)
    if window <= 0:
        return None, "not known"
    return last.transactions / window, (
        "from all transactions of this database, including those that only read: use --watch for "
        "the true pace"
    )


def _multixacts(moments: Sequence[Moment]) -> tuple[float | None, str]:
    """IDs used per second, if the oldest stayed the same over a watch."""
    first, last = moments[0], moments[-1]
    if last.at <= first.at:
        return None, "not known without a watch"
    if first.oldest_multixact != last.oldest_multixact:
        return None, "not known: the oldest multixact changed during the watch"
    return (last.multixact_age - first.multixact_age) / (last.at - first.at), "measured"
