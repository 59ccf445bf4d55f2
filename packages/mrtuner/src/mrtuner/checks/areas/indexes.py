"""Indexes of the connected database: invalid, doubled, never used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mrtuner.checks.catalogue import CannotJudge, check, known_part
from mrtuner.checks.state import Index, PartitionedIndex, State
from mrtuner.findings import SLIGHT, Command, Finding, Severity
from mrtuner.postgres.quoting import identifier, regclass
from mrtuner.units import pretty_bytes, pretty_duration
from mrtuner.wording import as_name, first_few, plural

_SHOWN: Final = 5
#: Statistics younger than this [s] cannot show that an index is never used: reports run monthly.
_MONTH: Final = 30 * 86_400.0


@check(
    "invalid-index",
    judged="pg_index.indisvalid is false, and no session builds it or all of its table; that of a "
    "partitioned table, if a partition lacks its own, or got one while that was invalid, or the "
    "last partition that lacked one is gone (to know, unless it is unique)",
    source="documentation: CREATE INDEX, Building Indexes Concurrently; ALTER INDEX",
    remedy="Build it again with REINDEX INDEX CONCURRENTLY, or drop what a failed one left behind; "
    "attach the partitions' indexes.",
    needs=("indexes", "partitioned_indexes"),
    of_primary=True,
)
def invalid_index(state: State) -> Iterator[Finding]:
    """An index that no query uses, although writes may maintain it: CREATE INDEX CONCURRENTLY
    failed, or REINDEX CONCURRENTLY left it behind. Or CREATE INDEX ON ONLY a partitioned table was
    not completed: new partitions get the index, and older ones do without. An index that was
    attached while it was invalid leaves the whole invalid, also when it is rebuilt. So does the
    last partition that lacked one, when it is dropped or detached.
    """
    for whole in state.partitioned_indexes:
        if whole.lacking or whole.attached is None:
            yield _incomplete(whole)
        else:
            yield _left_invalid(state, whole, *whole.attached)
    for one in state.indexes:
        if one.valid or one.building:
            continue
        left = not one.live or (
            not one.attached and one.name.rpartition("_")[2].startswith(("ccnew", "ccold"))
        )
        name = f"{identifier(one.schema)}.{identifier(one.name)}"
        yield Finding(
            id="invalid-index",
            severity=Severity.TO_DO,
            text=f"index {as_name(one.schema, one.name)} of {as_name(one.schema, one.table)} "
            "is invalid",
            consequence="no query uses it"
            + (", although every write maintains it" if one.ready else "")
            + (f", and {_UNENFORCED[one.ready]}" if one.unique else ""),
            cost=state.of_volume(one.size),
            basis="pg_index, now",
            remedy=(Command(f"DROP INDEX CONCURRENTLY {name};"),)
            if left
            else (
                *(["Remove duplicates first, or it fails again:"] if one.unique else []),
                Command(f"REINDEX INDEX CONCURRENTLY {name};"),
            ),
        )


#: What an invalid unique index does not do, by whether writes maintain it.
_UNENFORCED: Final = {
    True: "rows that were there before may be duplicates",
    False: "it does not enforce that its columns are unique",
}
_INDEX: Final = (
    "Create it, with CREATE INDEX CONCURRENTLY, or ON ONLY where a partition is partitioned itself,"
)
_CONSTRAINT: Final = (
    "Add its constraint, with a unique index built before (ALTER TABLE … ADD … USING INDEX),"
)


def _incomplete(one: PartitionedIndex) -> Finding:
    """What a partitioned table's index lacks; its definition is not read, which takes a lock."""
    name = f"{identifier(one.schema)}.{identifier(one.name)}"
    without = [identifier(part) for _, part, _, index in one.lacking if index is None]
    attached = [
        Command(f"ALTER INDEX {name} ATTACH PARTITION {identifier(schema)}.{identifier(index)};")
        for _, _, schema, index in one.lacking if schema is not None and index is not None
    ]  # fmt: skip
    lacking = first_few([as_name(part) for _, part, *_ in one.lacking], _SHOWN)
    return Finding(
        id="invalid-index",
        severity=Severity.TO_DO,
        text=f"index {as_name(one.schema, one.name)} of {as_name(one.schema, one.table)} is "
        f"invalid: {plural(len(one.lacking), 'partition')} without it: {lacking}",
        consequence="queries on these partitions do without, and it cannot enforce uniqueness",
        basis="pg_index and pg_inherits, now",
        remedy=(
            *attached,
            *(
                (
                    f"{_CONSTRAINT if one.enforces else _INDEX} on {first_few(without, _SHOWN)}, "
                    "then ALTER INDEX … ATTACH PARTITION; its definition:",
                    Command(f"SELECT pg_get_indexdef({regclass(one.schema, one.name)});"),
                )
                if without else ()
            ),
        ),
    )  # fmt: skip


#: The first minor version in which ATTACH PARTITION looks at the whole again, if the index is
#: attached already. Source: tablecmds.c, ATExecAttachPartitionIdx; commit 9d3e094f12.
_LOOKS_AGAIN: Final = {14: 23, 15: 18, 16: 14, 17: 10, 18: 4}


def _left_invalid(
    state: State, one: PartitionedIndex, schema: str, index: str, valid: bool
) -> Finding:
    """Each partition has its index, and the whole is invalid still: REINDEX does not look at it."""
    name = f"{identifier(one.schema)}.{identifier(one.name)}"
    attach = Command(
        f"ALTER INDEX {name} ATTACH PARTITION {identifier(schema)}.{identifier(index)};"
    )
    return Finding(
        id="invalid-index",
        severity=Severity.TO_DO if one.unique else Severity.TO_KNOW,
        text=f"index {as_name(one.schema, one.name)} of {as_name(one.schema, one.table)} is "
        "invalid, although each partition has its own",
        consequence="INSERT … ON CONFLICT fails where it needs it"
        if one.unique
        else "queries use those of the partitions, unless these are invalid, too",
        basis="pg_index and pg_inherits, now",
        remedy=(
            *([] if valid else [f"Rebuild partitions' indexes first: {as_name(schema, index)}"]),
            *_looked_at_again(state, one, attach),
        ),
    )


def _looked_at_again(state: State, one: PartitionedIndex, attach: Command) -> Iterator[str]:
    """What makes the whole valid, if the version knows a way."""
    major, minor = divmod(state.server.version_num, 10_000)
    first = _LOOKS_AGAIN.get(major, 0)
    if major < min(_LOOKS_AGAIN):
        lost = f"Version {major} leaves it invalid: "
        top = as_name(*one.top)
        oid = regclass(*one.top)
        if one.enforces:
            yield (
                f"{lost}drop the constraint of {top} and add it again, in one ALTER TABLE, which "
                "locks the table; its definition:"
            )
            columns = "conrelid::regclass, conname, pg_get_constraintdef(oid)"
            yield Command(f"SELECT {columns} FROM pg_constraint WHERE conindid = {oid};")  # noqa: S608
        else:
            yield (
                f"{lost}create another one with CREATE INDEX ON ONLY, attach new ones of the "
                f"partitions, and drop {top}; its definition:"
            )
            yield Command(f"SELECT pg_get_indexdef({oid});")
        return
    if minor < first:
        yield f"Update to {major}.{first} or later first: before, this changes nothing:"
    else:
        yield "This looks at the whole again, although that one is attached:"
    yield attach


@check(
    "duplicate-index",
    judged="another index of the table has the same columns, operators, order and condition, and "
    "enforces as much",
    source="pg_index",
    remedy="Drop one of them.",
    needs=("indexes",),
    of_primary=True,
)
def duplicate_index(state: State) -> Iterator[Finding]:
    """Two indexes are the same: both are written, and one would do."""
    found = [one for one in state.indexes if one.same_as is not None]
    if found:
        yield _superfluous(
            "duplicate-index", found, f"the same as another one: {_count(len(found))}",
            "pg_index, now",
        )  # fmt: skip


@check(
    "unused-index",
    judged="no scan for at least a month of statistics, 10 MB or larger, and it enforces nothing",
    source="pg_stat_user_indexes; the time and the size are chosen",
    remedy="Drop it, if no standby uses it.",
    needs=("indexes",),
    of_primary=True,
)
def unused_index(state: State) -> Iterator[Finding]:
    """An index that is written and never read here; a standby may use it: each counts its own.

    One that is new may just not have been needed yet: no catalog tells when it was created.
    """
    found = [
        one for one in state.indexes
        if one.valid and not one.enforces and not one.scans and one.same_as is None
    ]  # fmt: skip
    if not found:
        return
    moment = known_part(state, "vacuum", state.vacuum).picture.samples[-1].moment
    age = pretty_duration(moment.counted_for)
    if moment.counted_for < _MONTH:
        raise CannotJudge(
            f"statistics of this database are {age} old; {_count(len(found), 'large ')} had no "
            "scan since",
            "Ask again when they are a month old.",
        )
    created = "it was" if len(found) == 1 else "they were"
    told = f"{_count(len(found))} had no scan in {age}, or since {created} created"
    if state.server.standbys:
        told += f", here; {state.server.standbys} attached here may use them"
    yield _superfluous(
        "unused-index", found, told, "pg_stat_user_indexes, since the last reset",
        "If it is older than a month, which PostgreSQL does not record:",
    )  # fmt: skip


def _superfluous(name: str, found: Sequence[Index], text: str, basis: str, *before: str) -> Finding:
    size = sum(one.size for one in found)
    return Finding(
        id=name,
        severity=Severity.TO_KNOW,
        text=f"{text}, {pretty_bytes(size)} in all",
        consequence="each is written with every row, and takes memory and disk",
        evidence=tuple(
            f"{as_name(one.schema, one.name)} of {as_name(one.schema, one.table)}, "
            + pretty_bytes(one.size)
            + (f", the same as {as_name(one.same_as)}" if one.same_as else "")
            for one in found[:_SHOWN]
        ),
        basis=basis,
        remedy=(*before, *map(_dropped, found[:_SHOWN])),
    )


def _dropped(one: Index) -> Command:
    if not one.constraint:
        return Command(f"DROP INDEX CONCURRENTLY {identifier(one.schema)}.{identifier(one.name)};")
    return Command(
        f"ALTER TABLE {identifier(one.schema)}.{identifier(one.table)} DROP CONSTRAINT "
        f"{identifier(one.name)};  -- unless ON CONFLICT ON CONSTRAINT names it"
    )


def _count(number: int, kind: str = "") -> str:
    return f"{number:,} {kind}{'index' if number == 1 else 'indexes'}"


@check(
    "foreign-key-unindexed",
    judged="no index of a table of 10 MB begins with a column of its foreign key, nor one of the "
    "rows in which it is not null; 100 rows or more were deleted from the parent, and the table "
    "was read whole as often at least; partitions of one table are told once",
    source="documentation: Constraints, Foreign Keys; the limits are chosen",
    remedy="CREATE INDEX CONCURRENTLY on the columns of the key.",
    needs=("unindexed",),
    of_primary=True,
)
def foreign_key_unindexed(state: State) -> Iterator[Finding]:
    """Each row that is deleted from the parent reads all of the table that refers to it, since the
    server does not index a foreign key by itself.
    """
    for one in state.unindexed:
        columns = ", ".join(map(identifier, one.columns))
        table = as_name(one.schema, one.name)
        yield Finding(
            id="foreign-key-unindexed",
            severity=Severity.TO_KNOW,
            text=f"no index of {table} serves its foreign key {as_name(one.key)}, and "
            f"{one.deleted:,} rows were deleted from {as_name(one.parent_schema, one.parent)}",
            consequence=f"each of them reads all of {table}, {pretty_bytes(one.size)}",
            cost=SLIGHT,
            evidence=(
                f"{table} was read whole {one.scans:,} times, {one.read:,} rows in all",
                *(["it is a partition; others may lack the index, too"] if one.partition else []),
            ),
            basis="pg_constraint and pg_stat_user_tables, counters since the last reset",
            remedy=(
                Command(
                    f"CREATE INDEX CONCURRENTLY ON {identifier(one.schema)}."
                    f"{identifier(one.name)} ({columns});"
                ),
            ),
        )
