"""How far the transaction and multixact counters are from a forced vacuum and from the stop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mrtuner.postgres.named_queries import Row
from mrtuner.vacuum.model import Counter, HorizonBlocker, Moment, Picture, WraparoundDistance

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


def oldest(relations: Sequence[Row]) -> dict[Counter, str]:
    """The relation with the oldest ID of each counter; rows of the query ``vacuum_oldest``."""
    ages: dict[Counter, str] = {"transaction IDs": "age", "multixact IDs": "multixact_age"}
    return {
        counter: _named(max(relations, key=lambda row: int(row[age])))
        for counter, age in ages.items()
        if relations
    }


def unfrozen(relations: Sequence[Row], settings: Mapping[str, str]) -> Iterator[HorizonBlocker]:
    """Temporary tables so old that a vacuum would be forced: autovacuum may not touch them.

    Source: documentation, CREATE TABLE, TEMPORARY.
    """
    xids = _setting(settings, *_FORCED["transaction IDs"])
    multixacts = _setting(settings, *_FORCED["multixact IDs"])
    for row in relations:
        if row["temporary"] and (row["age"] >= xids or row["multixact_age"] >= multixacts):
            yield HorizonBlocker(
                what="temporary table",
                name=_named(row) + (f" of process {row['pid']}" if row["pid"] else ""),
                age=row["age"],
                seconds=None,
                remedy=_TEMPORARY,
                sql=f"SELECT pg_terminate_backend({row['pid']});" if row["pid"] else None,
                serious=True,
                keeps="transaction IDs",
            )


_TEMPORARY: Final = (
    "Autovacuum cannot vacuum it: run VACUUM (FREEZE) on it in its session, drop it, or end the "
    "session."
)
#: The age that forces a vacuum, and its default. Source: guc_parameters.dat.
_FORCED: Final[Mapping[Counter, tuple[str, int]]] = {
    "transaction IDs": ("autovacuum_freeze_max_age", 200_000_000),
    "multixact IDs": ("autovacuum_multixact_freeze_max_age", 400_000_000),
}


def _named(row: Row) -> str:
    return f"{row['schema']}.{row['name']}"


def _each(picture: Picture) -> Iterator[WraparoundDistance]:
    if not picture.databases:
        return
    stop = stops_at(picture.major)
    moments = [sample.moment for sample in picture.samples]
    name, age, _ = max(picture.databases, key=lambda one: one[1])
    yield _one(picture, "transaction IDs", name, age, stop, _transactions(moments))
    name, _, age = max(picture.databases, key=lambda one: one[2])
    yield _one(picture, "multixact IDs", name, age, stop, _multixacts(moments, picture.major))


def _one(
    picture: Picture,
    what: Counter,
    database: str,
    age: int,
    stop: int,
    paced: tuple[float | None, str],
) -> WraparoundDistance:
    pace, certainty = paced
    forced = _setting(picture.settings, *_FORCED[what])

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
        oldest=picture.oldest.get(what) if database == picture.database else None,
    )


def _setting(settings: Mapping[str, str], name: str, default: int) -> int:
    return int(settings.get(name, default))


def _transactions(moments: Sequence[Moment]) -> tuple[float | None, str]:
    """IDs used per second: measured over a watch, else estimated by the transactions counted."""
    first, last = moments[0], moments[-1]
    if last.at > first.at:
        return (last.next_xid - first.next_xid) / (last.at - first.at), "measured"
    if last.counted_for <= 0 or last.pace_elsewhere is None:
        return None, "not known"
    return last.transactions / last.counted_for + last.pace_elsewhere, (
        "from all transactions of the server, also those that only read, without savepoints: use "
        "--watch for the true pace"
    )


def _multixacts(moments: Sequence[Moment], major: int) -> tuple[float | None, str]:
    """IDs used per second, if the oldest stayed the same over a watch.

    The number of members is 32 bits wide before 19. Source: multixact.c, MultiXactOffset.
    """
    first, last = moments[0], moments[-1]
    if last.at <= first.at:
        return None, "not known without a watch"
    if first.oldest_multixact != last.oldest_multixact:
        return None, "not known: the oldest multixact changed during the watch"
    members = "" if major >= 19 else ", without members, whose space may run out before"
    pace = (last.multixact_age - first.multixact_age) / (last.at - first.at)
    return pace, f"measured{members}"
