"""Indexes of the connected database: invalid, doubled, never used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mrtuner.checks.catalogue import CannotJudge, check
from mrtuner.checks.state import Index, State
from mrtuner.findings import Command, Finding, Severity
from mrtuner.units import pretty_bytes, pretty_duration
from mrtuner.vacuum.commands import identifier
from mrtuner.wording import as_name

_SHOWN: Final = 5
#: Statistics younger than this [s] cannot show that an index is never used: reports run monthly.
_MONTH: Final = 30 * 86_400.0


@check(
    "invalid-index",
    judged="pg_index.indisvalid is false, and no session builds it or all of its table",
    source="documentation: CREATE INDEX, Building Indexes Concurrently",
    remedy="Build it again with REINDEX INDEX CONCURRENTLY, or drop what a failed one left behind.",
    needs=("indexes",),
    of_primary=True,
)
def invalid_index(state: State) -> Iterator[Finding]:
    """An index that no query uses, although every write maintains it: CREATE INDEX CONCURRENTLY
    failed, or REINDEX CONCURRENTLY left it behind.
    """
    for one in state.indexes:
        if one.valid or one.building:
            continue
        left = one.name.rpartition("_")[2].startswith(("ccnew", "ccold"))
        name = f"{identifier(one.schema)}.{identifier(one.name)}"
        yield Finding(
            id="invalid-index",
            severity=Severity.TO_DO,
            text=f"index {as_name(one.schema, one.name)} of {as_name(one.table)} is invalid",
            consequence="no query uses it and, if it should be unique, it does not enforce that",
            cost=state.of_volume(one.size),
            basis="pg_index, now",
            remedy=(Command(f"DROP INDEX CONCURRENTLY {name};"),)
            if left
            else (
                *(["Remove duplicates first, or it fails again:"] if one.unique else []),
                Command(f"REINDEX INDEX CONCURRENTLY {name};"),
            ),
        )


@check(
    "duplicate-index",
    judged="another index of the table has the same columns, operators, order and condition",
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
    """An index that is written and never read here; a standby may use it: each counts its own."""
    found = [
        one for one in state.indexes
        if one.valid and not one.enforces and not one.scans and one.same_as is None
    ]  # fmt: skip
    if not found:
        return
    if state.counted_for is None or state.counted_for < _MONTH:
        age = pretty_duration(state.counted_for or 0)
        raise CannotJudge(
            f"statistics of this database are {age} old; {_count(len(found), 'large ')} had no "
            "scan since",
            "Ask again when they are a month old.",
        )
    told = f"{_count(len(found))} had no scan in {pretty_duration(state.counted_for)}"
    if state.server.standbys:
        told += f", here; {state.server.standbys} attached here may use them"
    yield _superfluous("unused-index", found, told, "pg_stat_user_indexes, since the last reset")


def _superfluous(name: str, found: Sequence[Index], text: str, basis: str) -> Finding:
    size = sum(one.size for one in found)
    return Finding(
        id=name,
        severity=Severity.TO_KNOW,
        text=f"{text}, {pretty_bytes(size)} in all",
        consequence="each is written with every row, and takes memory and disk",
        evidence=tuple(
            f"{as_name(one.schema, one.name)} of {as_name(one.table)}, {pretty_bytes(one.size)}"
            + (f", the same as {one.same_as}" if one.same_as else "")
            for one in found[:_SHOWN]
        ),
        basis=basis,
        remedy=tuple(
            Command(f"DROP INDEX CONCURRENTLY {identifier(one.schema)}.{identifier(one.name)};")
            for one in found[:_SHOWN]
        ),
    )


def _count(number: int, kind: str = "") -> str:
    return f"{number:,} {kind}{'index' if number == 1 else 'indexes'}"
