"""Storage parameters: what a killed run, another machine or a missing right leaves.

packages/mrtuner/tests/change/test_change_killed.py kills a run at every step.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from changed_things import StorageParameters
from killed import change, was_killed

from mrtuner.change.journal import Journal
from mrtuner.errors import ApplyError, Refused
from mrtuner.postgres.cluster import Cluster
from mrtuner.vacuum.apply import StorageParameters as Tables
from servers import sql

pytestmark = pytest.mark.timed

if sys.platform == "win32":
    pytest.skip("needs SIGKILL", allow_module_level=True)

SCALE, ENTRIES = StorageParameters.SCALE, StorageParameters.ENTRIES
START = [[f"{SCALE}=0.3"], None, None]
TARGET = [[f"{SCALE}=0.01"], [f"{SCALE}=0"], [f"{SCALE}=0.01"]]


@pytest.fixture
def dsn(embedded: Cluster) -> Iterator[str]:
    sql(embedded.dsn(), "CREATE DATABASE killed")
    where = embedded.dsn("killed")
    StorageParameters(where).reset()
    yield where
    sql(embedded.dsn(), "DROP DATABASE killed WITH (FORCE)")


def options(dsn: str) -> list[Any]:
    return StorageParameters(dsn).now()


def test_what_was_committed_is_known_even_if_somebody_changed_one_since(
    dsn: str, tmp_path: Path
) -> None:
    """Killed after the commit, before the journal noted it; then somebody sets one of three."""
    committed = next(
        killed_at
        for killed_at in count(1)
        if was_killed(partial(change, StorageParameters(dsn), "apply", tmp_path), killed_at)
        and options(dsn) == TARGET
    )
    assert committed
    sql(dsn, f"ALTER TABLE two SET ({SCALE} = 0.07)")
    with Journal(tmp_path) as journal:
        outcome = Tables.finish_or_revert_interrupted(dsn, journal)
        assert outcome is not None
        assert (outcome.result, outcome.left) == ("finished", (ENTRIES[2].name,))
        Tables.undo(dsn, journal)
    assert options(dsn) == [*START[:2], [f"{SCALE}=0.07"]]


def test_a_plan_that_is_no_longer_true_changes_nothing(dsn: str, tmp_path: Path) -> None:
    sql(dsn, f"ALTER TABLE one SET ({SCALE} = 0.4)")
    with Journal(tmp_path) as journal, pytest.raises(ApplyError, match="since the plan"):
        Tables.apply(dsn, ENTRIES, journal)
    assert options(dsn) == [[f"{SCALE}=0.4"], None, None]


def test_two_at_once_from_two_machines_are_refused(dsn: str, tmp_path: Path) -> None:
    """Each has a journal of its own, so only the server can tell."""

    def meanwhile(step: str) -> None:
        if step == "commit":
            with Journal(tmp_path / "other") as other, pytest.raises(Refused, match="another"):
                Tables.undo(dsn, other)

    with Journal(tmp_path) as journal:
        assert Tables.apply(dsn, ENTRIES, journal, at=meanwhile).result == "applied"
    assert options(dsn) == TARGET


def test_a_role_that_does_not_own_the_table_is_told_so(dsn: str, tmp_path: Path) -> None:
    sql(dsn, "CREATE ROLE stranger LOGIN")
    try:
        with (
            Journal(tmp_path) as journal,
            pytest.raises(ApplyError, match="must be owner") as not_ours,
        ):
            Tables.apply(dsn.replace("user=postgres", "user=stranger"), ENTRIES, journal)
    finally:
        sql(dsn, "DROP ROLE stranger")
    assert not_ours.value.hint == "Connect as the owner of the tables or as a superuser."
    assert options(dsn) == START
