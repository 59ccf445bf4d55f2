"""Tables that were never analyzed, and those whose changes cannot be published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from mrtuner.checks.areas.replication import keeps_wal
from mrtuner.checks.catalogue import CannotJudge, check
from mrtuner.checks.state import State, UnanalyzedTable, UnidentifiedTable, UnloggedTable
from mrtuner.findings import SLIGHT, Command, Finding, Severity
from mrtuner.postgres.quoting import identifier
from mrtuner.units import pretty_bytes, pretty_duration
from mrtuner.wording import as_name, enumerated, first_few, plural

_SHOWN: Final = 5


@check(
    "never-analyzed",
    judged="a table of 1,000 rows or 1 MB (partitioned: 10,000 rows) has never been analyzed; of "
    "one that an index build or VACUUM has counted, only if the role may read it; to know, if "
    "autovacuum has counted enough changes to do it in its next round",
    source="documentation: Routine Vacuuming, Updating Planner Statistics",
    remedy="ANALYZE the table, a partitioned one from time to time.",
    needs=("unanalyzed",),
    of_primary=True,
)
def never_analyzed(state: State) -> Iterator[Finding]:
    """The planner guesses: it has no statistics of a table. Autovacuum collects them for ordinary
    tables that change, but never for a partitioned table as a whole; pg_upgrade brings none (18 and
    later: it does).
    """
    found = [one for one in state.unanalyzed if one.readable]
    if left := [one for one in found if not one.awaited]:
        yield _without_statistics(left)
    if awaited := [one for one in found if one.awaited]:
        nap = pretty_duration(state.naptime)
        yield replace(
            _without_statistics(awaited),
            severity=Severity.TO_KNOW,
            consequence="plans of queries on them rest on guesses until autovacuum has come, as a "
            f"rule within {nap}",
        )
    hidden = [one for one in state.unanalyzed if not one.readable]
    told = [
        (f"{what}: {first_few([as_name(one.schema, one.name) for one in these], _SHOWN)}", hint)
        for what, hint, these in (
            ("the size of a locked table cannot be seen", "Ask again when the lock is gone.",
             [one for one in hidden if not one.partitioned]),
            ("whether a partitioned table was analyzed cannot be seen",
             "GRANT SELECT ON the table TO the role.", [one for one in hidden if one.partitioned]),
        ) if these
    ]  # fmt: skip
    if told:
        why, hint = zip(*told, strict=True)
        raise CannotJudge("; ".join(why), " ".join(hint))


def _without_statistics(found: Sequence[UnanalyzedTable]) -> Finding:
    whole = [as_name(one.schema, one.name) for one in found]
    return Finding(
        id="never-analyzed",
        severity=Severity.TO_DO,
        text=f"{plural(len(found), 'table')} without statistics: {first_few(whole, _SHOWN)}",
        consequence="plans of queries on them rest on guesses",
        cost=SLIGHT,
        evidence=tuple(
            f"{as_name(one.schema, one.name)}, "
            + (f"about {one.rows:,} rows" if one.rows else pretty_bytes(one.size or 0))
            + (", partitioned: autovacuum does not analyze it" if one.partitioned else "")
            + (", autovacuum_enabled is off" if one.off else "")
            for one in found[:_SHOWN]
        ),
        basis="pg_class and pg_stat_user_tables, now",
        remedy=tuple(
            Command(f"ANALYZE {identifier(one.schema)}.{identifier(one.name)};")
            for one in found[:_SHOWN]
        ),
    )


@check(
    "unlogged-tables",
    judged="an unlogged table has rows, and the server has a standby or archives its WAL",
    source="documentation: CREATE TABLE, UNLOGGED",
    remedy="ALTER TABLE … SET LOGGED, if its rows must outlive a failover.",
    needs=("unlogged",),
    of_primary=True,
)
def unlogged_tables(state: State) -> Iterator[Finding]:
    """An unlogged table is empty after a failover, and after each crash: its changes are not in
    WAL. So it should have only what can be made again.
    """
    found = state.unlogged
    if not found or not (state.server.standbys or keeps_wal(state)):
        return
    names = [as_name(one.schema, one.name) for one in found]
    yield Finding(
        id="unlogged-tables",
        severity=Severity.TO_KNOW,
        text=f"{plural(len(found), 'unlogged table')} with rows: {first_few(names, _SHOWN)}",
        consequence="after a failover or a crash, and in a restored base backup, they are empty",
        cost=SLIGHT,
        evidence=tuple(
            f"{name}, an estimated {plural(one.rows, 'row')}, "
            + (pretty_bytes(one.size) if one.size else "locked now")
            for name, one in zip(names[:_SHOWN], found, strict=False)
        ),
        basis="pg_class and pg_stat_user_tables, now",
        remedy=tuple(_logged(found[:_SHOWN])),
    )  # fmt: skip


def _logged(found: Sequence[UnloggedTable]) -> Iterator[str]:
    """What makes them logged: first the tables that their foreign keys lead to."""
    order = dict.fromkeys(
        (schema, name)
        for one in found if not one.circular
        for schema, name in (*one.before, (one.schema, one.name))
    )  # fmt: skip
    if order:
        yield (
            "If the rows must outlive that (each rewrites its table, which nobody can read then):"
        )
    for schema, name in order:
        yield Command(f"ALTER TABLE {identifier(schema)}.{identifier(name)} SET LOGGED;")
    if circular := [as_name(one.schema, one.name) for one in found if one.circular]:
        yield (
            f"SET LOGGED fails for {enumerated(circular)} as long as foreign keys lead from "
            "unlogged tables back to themselves: drop one of these keys, and add it again after it"
        )


@check(
    "replica-identity-missing",
    judged="UPDATE or DELETE of a table is published, and it has neither a primary key nor another "
    "replica identity (danger: rows of it were updated or deleted since statistics were reset)",
    source="documentation: Logical Replication, Publication",
    remedy="Give the table a key, or REPLICA IDENTITY FULL.",
    needs=("unidentified",),
    of_primary=True,
)
def replica_identity_missing(state: State) -> Iterator[Finding]:
    """The server refuses every UPDATE and DELETE of a table that publishes them, if a subscriber
    could not tell which row is meant. INSERT goes on.
    """
    for severity, found in (
        (Severity.DANGER, [one for one in state.unidentified if one.changes]),
        (Severity.TO_DO, [one for one in state.unidentified if not one.changes]),
    ):
        if found:
            yield _unidentified(severity, found)


def _unidentified(severity: Severity, found: Sequence[UnidentifiedTable]) -> Finding:
    whole = [as_name(one.schema, one.name) for one in found]
    refused = [
        word for word, fails in (
            ("UPDATE", any(one.updates for one in found)),
            ("DELETE", any(one.deletes for one in found)),
        ) if fails
    ]  # fmt: skip
    return Finding(
        id="replica-identity-missing",
        severity=severity,
        text=f"{plural(len(found), 'published table')} without a replica identity: "
        f"{first_few(whole, _SHOWN)}",
        consequence=f"every {enumerated(refused)} of them fails",
        harm_in=0.0 if severity is Severity.DANGER else None,
        evidence=tuple(
            f"{name}: {plural(one.changes, 'row')} updated or deleted before"
            for name, one in zip(whole[:_SHOWN], found, strict=False) if one.changes
        ),
        basis="pg_publication, pg_class and pg_index, now",
        remedy=tuple(
            Command(
                f"ALTER TABLE {identifier(one.schema)}.{identifier(one.name)} REPLICA IDENTITY "
                + (f"USING INDEX {identifier(one.index)};" if one.index
                   else "FULL;  -- or add a primary key: a subscriber finds rows by it faster")
            )
            for one in found[:_SHOWN]
        ),
    )  # fmt: skip


@check(
    "constraint-disabled",
    judged="pg_trigger.tgenabled is D for a trigger by which the server checks a constraint",
    source="documentation: ALTER TABLE, DISABLE TRIGGER",
    remedy="Enable the triggers, and add the constraint again, which checks what was written.",
    needs=("disabled",),
    of_primary=True,
)
def constraint_disabled(state: State) -> Iterator[Finding]:
    """ALTER TABLE … DISABLE TRIGGER ALL switches foreign keys off as well. Until somebody enables
    them again, rows that violate them are written, and nobody notices.
    """
    for one in state.disabled:
        enabled = ", ".join(f"ENABLE TRIGGER {identifier(name)}" for name in one.triggers)
        names = first_few([as_name(name) for name in one.constraints], _SHOWN)
        yield Finding(
            id="constraint-disabled",
            severity=Severity.TO_DO,
            text=f"constraints are not checked on {as_name(one.schema, one.name)}, since their "
            f"triggers are disabled: {names}",
            consequence="rows that violate them are written, and nobody notices",
            basis="pg_trigger, now",
            remedy=(
                Command(f"ALTER TABLE {identifier(one.schema)}.{identifier(one.name)} {enabled};"),
                "What was written meanwhile is not checked by that: drop each constraint and add "
                "it again, which fails where a row violates it",
            ),
        )
