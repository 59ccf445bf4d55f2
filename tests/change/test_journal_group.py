"""Changes of parameter groups in the journal."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from mrtuner.change.journal import Journal
from mrtuner.change.record import Change, Entry, GroupChange, State

CHANGE = Change(
    server="arn:aws:rds:eu-west-1:123456789012:db:db1",
    address="eu-west-1/db1",
    method="parameter group",
    entries=(
        Entry(name="work_mem", before=None, after="8192", restart=False, in_force=""),
        Entry(name="max_connections", before="100", after=None, restart=True, in_force="100"),
    ),
    restarts=True,
    group=GroupChange(
        region="eu-west-1",
        scope="db",
        identifier="db1",
        name="shop",
        family="postgres17",
        attached_before="default.postgres17",
        attached_after="shop",
        creates=True,
        reboots=("db2", "db1"),
    ),
)


def test_a_change_of_a_group_comes_back_from_the_disk_as_it_was_written(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        begun = journal.begin(CHANGE)
    with Journal(tmp_path) as journal:
        found = journal.unfinished(CHANGE.server)
    assert found == begun
    assert found == replace(CHANGE, id=1, began=begun.began)


def test_an_accepted_reboot_is_recorded_by_its_instance_not_by_the_words_of_the_step(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path) as journal:
        change = journal.begin(CHANGE)
        journal.note(change, State.RESTARTING, "db2 is rebooting")
        assert journal.rebooted(change) == frozenset()
        journal.note(change, State.RESTARTING, "whatever is said of it", rebooting="db2")
    with Journal(tmp_path) as journal:
        assert journal.rebooted(change) == {"db2"}


def test_a_journal_that_did_not_record_reboots_yet_is_brought_up_to_date(tmp_path: Path) -> None:
    """Schema 3 had no column for them."""
    with Journal(tmp_path) as journal:
        change = journal.begin(CHANGE)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as db:
        db.execute("ALTER TABLE step DROP COLUMN rebooting")
        db.execute("PRAGMA user_version = 3")
        db.commit()
    with Journal(tmp_path) as journal:
        assert journal.steps(change) == ("planned",)
        journal.note(change, State.RESTARTING, "db1 is rebooting", rebooting="db1")
        assert journal.rebooted(change) == {"db1"}


def test_attaching_is_a_state_of_an_unfinished_change(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        change = journal.begin(CHANGE)
        journal.note(change, State.ATTACHING, "attach group shop")
        found = journal.unfinished(CHANGE.server)
    assert found is not None
    assert found.state is State.ATTACHING
