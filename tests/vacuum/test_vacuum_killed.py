"""Killed at any step: every parameter has its start or every one its target, and recover knows."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest

from mrtuner.change.journal import Journal
from mrtuner.change.record import Entry
from mrtuner.errors import ApplyError, Refused
from mrtuner.postgres.cluster import Cluster
from mrtuner.vacuum.apply import apply, recover, undo
from servers import sql

pytestmark = pytest.mark.timed

if sys.platform == "win32":
    pytest.skip("needs SIGKILL", allow_module_level=True)

SCALE = "autovacuum_vacuum_scale_factor"
ENTRIES = tuple(
    Entry(name=f'"public"."{table}" {name}', before=before, after=after, restart=False, in_force="")
    for table, name, before, after in (
        ("one", SCALE, "0.3", "0.01"),
        ("one", f"toast.{SCALE}", None, "0"),
        ("two", SCALE, None, "0.01"),
    )
)
START = [[f"{SCALE}=0.3"], None, None]
TARGET = [[f"{SCALE}=0.01"], [f"{SCALE}=0"], [f"{SCALE}=0.01"]]

Verb = Literal["apply", "undo"]
#: No threads and everything imported: a child is there in milliseconds.
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["mrtuner.vacuum.apply", "psycopg"])


@dataclass(frozen=True)
class Task:
    """What a child does, and at which of its steps it is killed."""

    verb: Verb
    dsn: str
    state: Path
    killed_at: int


def child(task: Task) -> None:
    """Run in a process of its own: it ends with SIGKILL, or normally after its last step."""
    steps = count(1)

    def at(_step: str) -> None:
        if next(steps) == task.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    with Journal(task.state) as journal:
        if task.verb == "undo":
            undo(task.dsn, journal, at=at)
        else:
            apply(task.dsn, ENTRIES, journal, at=at)


def run(verb: Verb, dsn: str, state: Path, killed_at: int = 0) -> bool:
    """Whether the child was killed; False when it had fewer steps."""
    process = CHILDREN.Process(target=child, args=(Task(verb, dsn, state, killed_at),))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


@pytest.fixture
def dsn(embedded: Cluster) -> Iterator[str]:
    sql(embedded.dsn(), "CREATE DATABASE killed")
    where = embedded.dsn("killed")
    sql(
        where,
        f"CREATE TABLE one (id int, note text) WITH ({SCALE} = 0.3)",
        "CREATE TABLE two (id int, note text)",
    )
    yield where
    sql(embedded.dsn(), "DROP DATABASE killed WITH (FORCE)")


def options(dsn: str) -> list[Any]:
    """Of table one, of its TOAST table, of table two."""
    ((one, toast),) = sql(
        dsn,
        "SELECT c.reloptions, t.reloptions FROM pg_class AS c "
        "JOIN pg_class AS t ON t.oid = c.reltoastrelid WHERE c.oid = 'one'::regclass",
    )
    ((two,),) = sql(dsn, "SELECT reloptions FROM pg_class WHERE oid = 'two'::regclass")
    return [one, toast, two]


def test_what_was_committed_is_known_even_if_somebody_changed_one_since(
    dsn: str, tmp_path: Path
) -> None:
    """Killed after the commit, before it was noted; then somebody else sets one of three."""
    committed = next(
        killed_at
        for killed_at in count(1)
        if run("apply", dsn, tmp_path, killed_at) and options(dsn) == TARGET
    )
    assert committed
    sql(dsn, f"ALTER TABLE two SET ({SCALE} = 0.07)")
    with Journal(tmp_path) as journal:
        outcome = recover(dsn, journal)
        assert outcome is not None
        assert (outcome.did, outcome.left) == ("finished", (ENTRIES[2].name,))
        undo(dsn, journal)
    assert options(dsn) == [*START[:2], [f"{SCALE}=0.07"]]


def test_a_plan_that_is_no_longer_true_changes_nothing(dsn: str, tmp_path: Path) -> None:
    sql(dsn, f"ALTER TABLE one SET ({SCALE} = 0.4)")
    with Journal(tmp_path) as journal, pytest.raises(ApplyError, match="since the plan"):
        apply(dsn, ENTRIES, journal)
    assert options(dsn) == [[f"{SCALE}=0.4"], None, None]


def test_two_at_once_from_two_machines_are_refused(dsn: str, tmp_path: Path) -> None:
    """Each has a journal of its own, so only the server can tell."""

    def meanwhile(step: str) -> None:
        if step == "commit":
            with Journal(tmp_path / "other") as other, pytest.raises(Refused, match="another"):
                undo(dsn, other)

    with Journal(tmp_path) as journal:
        assert apply(dsn, ENTRIES, journal, at=meanwhile).did == "applied"
    assert options(dsn) == TARGET


def test_a_role_that_does_not_own_the_table_is_told_so(dsn: str, tmp_path: Path) -> None:
    sql(dsn, "CREATE ROLE stranger LOGIN")
    try:
        with (
            Journal(tmp_path) as journal,
            pytest.raises(ApplyError, match="must be owner") as not_ours,
        ):
            apply(dsn.replace("user=postgres", "user=stranger"), ENTRIES, journal)
    finally:
        sql(dsn, "DROP ROLE stranger")
    assert not_ours.value.hint == "Connect as the owner of the tables or as a superuser."
    assert options(dsn) == START
