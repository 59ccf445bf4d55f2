"""Sequences, and integer keys without one, that are near their end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor
from typing import Final

from mrtuner.checks.catalogue import CannotJudge, check
from mrtuner.checks.state import State
from mrtuner.findings import Command, Finding, Severity
from mrtuner.postgres.quoting import identifier
from mrtuner.wording import as_name, enumerated, first_few, plural

#: Shares of a sequence from which on a plan, and then haste, is due; chosen, not measured.
_PLAN: Final = 0.7
_HASTE: Final = 0.9
_SHOWN: Final = 5


@check(
    "sequence-exhausted",
    judged="70 % (danger: 90 %) of a sequence, or of the type of the column that it fills, is "
    "used; to do at most, if it begins again (CYCLE), and only for a key",
    source="documentation: Numeric Types, Serial Types; the shares are chosen",
    remedy="Make the sequence and its column bigint.",
    needs=("sequences", "users"),
    of_primary=True,
)
def sequence_exhausted(state: State) -> Iterator[Finding]:
    """A key runs out of numbers: then every INSERT into its table fails.

    An integer column ends at 2,147,483,647, whatever its sequence can count to, and one that is
    counted down at -2,147,483,648.
    """
    hidden = [as_name(one.schema, one.name) for one in state.sequences if not one.readable]
    for one in state.sequences:
        share = one.share
        if share is None or share < _PLAN:
            continue
        filled = (
            [one.table_schema, one.table, one.column]
            if one.table_schema and one.table and one.column else []
        )  # fmt: skip
        of = f" ({one.type})" if one.type else ""  # none: numeric, or text
        fills = f", which fills {as_name(*filled)}{of}" if filled else ""
        sequence = f"{identifier(one.schema)}.{identifier(one.name)}"
        end = "NO MAXVALUE" if one.ascends else "NO MINVALUE"
        yield Finding(
            id="sequence-exhausted",
            severity=Severity.DANGER if share >= _HASTE and not one.cycles else Severity.TO_DO,
            text=f"{floor(100 * share)}% of sequence {as_name(one.schema, one.name)}{fills} is "
            f"used: {one.left or 0:,} numbers are left"
            + (", then it begins again (CYCLE)" if one.cycles else ""),
            consequence="then each INSERT of a number that is still there fails: duplicate key"
            if one.cycles else "then every INSERT that needs one fails",
            cost=share,
            basis="pg_sequences, now",
            remedy=(
                Command(f"ALTER SEQUENCE {sequence} AS bigint {end};"),
                *(_widened(state, filled, one.domain) if one.narrow else []),
            ),
        )  # fmt: skip
    if hidden:
        raise CannotJudge(
            f"the role may not read {plural(len(hidden), 'sequence')}: {first_few(hidden, _SHOWN)}",
            "GRANT SELECT ON ALL SEQUENCES IN SCHEMA … TO the role, or pg_read_all_data.",
        )


@check(
    "key-exhausted",
    judged="70 % (danger: 90 %) of the type of a unique integer column that no sequence fills is "
    "used",
    source="documentation: Numeric Types; the shares are chosen",
    remedy="Make the column bigint.",
    needs=("keys", "users"),
    of_primary=True,
)
def key_exhausted(state: State) -> Iterator[Finding]:
    """A key that the application numbers itself runs out: then every INSERT with a higher number
    fails. As the last ANALYZE saw it; keys in no order, such as hashes, are left out.
    """
    hidden = [as_name(one.schema, one.table) for one in state.keys if not one.readable]
    for one in state.keys:
        share = (one.last or 0) / one.most
        if share < _PLAN:
            continue
        yield Finding(
            id="key-exhausted",
            severity=Severity.DANGER if share >= _HASTE else Severity.TO_DO,
            text=f"{floor(100 * share)}% of {as_name(one.schema, one.table, one.column)} "
            f"({one.type}) is used: {one.most - (one.last or 0):,} numbers were left at the "
            "last ANALYZE",
            consequence="then every INSERT of a higher number fails: out of range",
            cost=share,
            basis="pg_stats, as of the last ANALYZE of the table",
            remedy=tuple(_widened(state, (one.schema, one.table, one.column), one.domain)),
        )
    if hidden:
        raise CannotJudge(
            "the role may not see the statistics of keys that no sequence fills: "
            f"{first_few(hidden, _SHOWN)}",
            "GRANT SELECT ON these tables TO the role, or pg_read_all_data.",
        )


def _widened(state: State, place: Sequence[str], domain: str | None) -> Iterator[str]:
    """The commands that make a column bigint, with those of the columns that reference it.

    `place` is its schema, its table and its name.
    """
    schema, table, column = place
    users = next(
        (one for one in state.users if (one.schema, one.table, one.column) == tuple(place)), None
    )
    if users and users.partitions:
        yield _copied(schema, table)
        return
    if users and users.forbids:
        yield (
            f"In one transaction with what follows, drop {enumerated(users.forbids)}, and create "
            "it again at the end: PostgreSQL refuses another type below it"
        )
    if domain:
        yield f"Note what domain {domain} checks: the column loses it, and may need a CHECK instead"
    own = (schema, table, column, False)
    for schema, table, column, of_key in (own, *(users.refers if users else ())):
        if of_key:
            yield _copied(schema, table)
            continue
        yield Command(
            f"ALTER TABLE {identifier(schema)}.{identifier(table)} "
            f"ALTER COLUMN {identifier(column)} "
            "TYPE bigint;  -- rewrites the table under a lock: large ones need a new column instead"
        )


def _copied(schema: str, table: str) -> str:
    return (
        f"Copy {identifier(schema)}.{identifier(table)} into a new table whose column is bigint, "
        "since a partition key cannot change its type"
    )
