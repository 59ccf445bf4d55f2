"""Storage parameters set and undone on a real server, and what a killed run leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from vacuum_tables import picture, sample, table

from mrtuner.change.journal import Journal
from mrtuner.change.record import Outcome, State
from mrtuner.errors import ApplyError, UsageError
from mrtuner.postgres.cluster import Cluster
from mrtuner.vacuum import Vacuum, judge
from mrtuner.vacuum.apply import StorageParameters, wanted
from mrtuner.vacuum.model import StorageParameter
from servers import sql

SCALE, THRESHOLD = "autovacuum_vacuum_scale_factor", "autovacuum_vacuum_threshold"
OPTIONS = (
    "SELECT c.reloptions, t.reloptions FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid "
    "WHERE c.oid = '\"odd name\"'::regclass"
)


@pytest.fixture
def dsn(embedded: Cluster) -> Iterator[str]:
    """A database with one table that has a parameter of its own."""
    sql(embedded.dsn(), "CREATE DATABASE altered")
    where = embedded.dsn("altered")
    sql(where, f'CREATE TABLE "odd name" (id int, note text) WITH ({SCALE} = 0.3)')
    yield where
    sql(embedded.dsn(), "DROP DATABASE altered WITH (FORCE)")


def advised(**values: str) -> Vacuum:
    """Advice for that table as a judgement would give it."""
    found = judge(picture(sample(1_000.0, table(name="odd name"))))
    (one,) = found.tables
    advice = tuple(
        StorageParameter(
            name=name.replace("toast_", "toast."), now=None, value=value, because="", source=""
        )
        for name, value in values.items()
    )
    return replace(found, tables=(replace(one, advice=advice),))


ADVICE = {SCALE: "0.01", THRESHOLD: "50", f"toast_{SCALE}": "0"}


def put(dsn: str, journal: Journal, **values: str) -> Outcome:
    entries = StorageParameters.planned(dsn, wanted(advised(**values)))
    return StorageParameters.apply(dsn, entries, journal)


def options(dsn: str) -> Any:
    return sql(dsn, OPTIONS)[0]


def test_what_is_set_is_verified_and_taken_back_exactly(dsn: str, journal: Journal) -> None:
    done = put(dsn, journal, **ADVICE)
    assert done.result == "applied"
    assert done.changed[0] == f'"public"."odd name" {SCALE}'
    assert options(dsn) == ([f"{SCALE}=0.01", f"{THRESHOLD}=50"], [f"{SCALE}=0"])
    assert StorageParameters.undo(dsn, journal).result == "undone"
    assert options(dsn) == ([f"{SCALE}=0.3"], None)
    with pytest.raises(UsageError, match="nothing to undo"):
        StorageParameters.undo(dsn, journal)


def test_a_name_of_several_lines_is_set_and_taken_back_like_any_other(
    dsn: str, journal: Journal
) -> None:
    """to_regclass() does not understand the U& of names that a person is shown."""
    sql(dsn, 'ALTER TABLE "odd name" RENAME TO "odd\n na\u200bme"')
    found = advised(**{SCALE: "0.01"})
    (one,) = found.tables
    found = replace(found, tables=(replace(one, table=table(name="odd\n na\u200bme")),))
    now = "SELECT reloptions FROM pg_class WHERE relname ^@ 'odd' AND relkind = 'r'"
    planned = StorageParameters.planned(dsn, wanted(found))
    assert StorageParameters.apply(dsn, planned, journal).result == "applied"
    assert sql(dsn, now) == [([f"{SCALE}=0.01"],)]
    assert StorageParameters.undo(dsn, journal).result == "undone"
    assert sql(dsn, now) == [([f"{SCALE}=0.3"],)]


def test_what_is_in_force_already_is_no_change(dsn: str, journal: Journal) -> None:
    assert put(dsn, journal, **{SCALE: "0.3"}).result == "nothing"


def test_what_the_server_refuses_changes_nothing(dsn: str, journal: Journal) -> None:
    with pytest.raises(ApplyError, match="nothing was changed"):
        put(dsn, journal, **{THRESHOLD: "50", SCALE: "101"})
    assert options(dsn) == ([f"{SCALE}=0.3"], None)
    assert StorageParameters.finish_or_revert_interrupted(dsn, journal) is None


def test_what_somebody_has_changed_since_is_left_to_them(dsn: str, journal: Journal) -> None:
    put(dsn, journal, **ADVICE)
    sql(dsn, f'ALTER TABLE "odd name" SET ({THRESHOLD} = 77)')
    done = StorageParameters.undo(dsn, journal)
    assert done.left == (f'"public"."odd name" {THRESHOLD}',)
    assert sorted(options(dsn)[0]) == [f"{SCALE}=0.3", f"{THRESHOLD}=77"]


@pytest.mark.parametrize(("committed", "did"), [(True, "finished"), (False, "reverted")])
def test_a_run_killed_around_the_commit_is_told_apart(
    dsn: str, journal: Journal, committed: bool, did: str
) -> None:
    put(dsn, journal, **ADVICE)
    (change,) = journal.changes()
    if not committed:
        StorageParameters.undo(dsn, journal)
    again = journal.begin(replace(change, id=0))
    journal.note(again, State.WRITING, "killed here")
    outcome = StorageParameters.finish_or_revert_interrupted(dsn, journal)
    assert outcome is not None
    assert outcome.result == did


def test_another_database_has_its_own_changes(dsn: str, journal: Journal) -> None:
    put(dsn, journal, **ADVICE)
    elsewhere = dsn.replace("altered", "postgres")
    with pytest.raises(UsageError, match="nothing to undo"):
        StorageParameters.undo(elsewhere, journal)


def test_the_owner_of_the_tables_needs_no_other_right(dsn: str, journal: Journal) -> None:
    sql(dsn, "CREATE ROLE shopkeeper LOGIN", 'ALTER TABLE "odd name" OWNER TO shopkeeper')
    theirs = dsn.replace("user=postgres", "user=shopkeeper")
    try:
        assert put(theirs, journal, **ADVICE).result == "applied"
        assert StorageParameters.undo(theirs, journal).result == "undone"
        assert options(dsn) == ([f"{SCALE}=0.3"], None)
    finally:
        sql(dsn, "REASSIGN OWNED BY shopkeeper TO postgres", "DROP ROLE shopkeeper")


def test_an_event_trigger_of_the_user_s_runs_in_the_role_s_search_path(
    dsn: str, tmp_path: Path
) -> None:
    sql(
        dsn, "CREATE TABLE ddl_log (tag text)",
        "CREATE FUNCTION noted() RETURNS event_trigger LANGUAGE plpgsql "
        "AS $$BEGIN INSERT INTO ddl_log VALUES (tg_tag); END$$",
        "CREATE EVENT TRIGGER noted ON ddl_command_end EXECUTE FUNCTION noted()",
    )  # fmt: skip
    with Journal(tmp_path) as journal:
        put(dsn, journal, **ADVICE)
    assert sql(dsn, "SELECT DISTINCT tag FROM ddl_log") == [("ALTER TABLE",)]
