"""The journal on a real disk, a full one and a read-only one."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from machine import needs
from mrtuner.change.journal import Journal, JournalError, journal_directory
from mrtuner.change.record import Change, GroupChange, ParameterChange, State
from mrtuner.errors import Refused, UsageError

CHANGE = Change(
    server="7301:/data:5432",
    address="/tmp:5432",
    method="alter system",
    entries=(
        ParameterChange(name="work_mem", before=None, after="64MB", restart=False, in_force="4096"),
        ParameterChange(name="jit", before="off", after=None, restart=False, in_force="off"),
    ),
    restarts=False,
    started="2026-01-01 00:00:00+00",
    system_identifier="7301",
    file="/data/postgresql.auto.conf",
    local=True,
)
OF_A_GROUP = Change(
    server="arn:aws:rds:eu-west-1:123456789012:db:db1",
    address="eu-west-1/db1",
    method="parameter group",
    entries=(
        ParameterChange(name="work_mem", before=None, after="8192", restart=False, in_force=""),
        ParameterChange(
            name="max_connections", before="100", after=None, restart=True, in_force="100"
        ),
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


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "state") as journal:
        yield journal


@pytest.mark.parametrize("change", [CHANGE, OF_A_GROUP], ids=["settings", "group"])
def test_a_change_comes_back_from_the_disk_as_it_was_written(
    change: Change, tmp_path: Path
) -> None:
    with Journal(tmp_path) as journal:
        begun = journal.begin(change)
    with Journal(tmp_path) as journal:
        found = journal.unfinished(change.server)
    assert found == begun
    assert found == replace(change, id=1, began=begun.began)


def test_attaching_is_a_state_of_an_unfinished_change(journal: Journal) -> None:
    change = journal.begin(OF_A_GROUP)
    journal.note(change, State.ATTACHING, "attach group shop")
    found = journal.unfinished(change.server)
    assert found is not None
    assert found.state is State.ATTACHING


def test_steps_are_kept_in_their_order(journal: Journal) -> None:
    change = journal.begin(CHANGE)
    journal.note(change, State.WRITING, "write work_mem")
    journal.note(change, State.WRITTEN, "check the files")
    assert journal.steps(change) == ("planned", "write work_mem", "check the files")


def test_a_finished_change_is_the_last_one_and_no_longer_unfinished(journal: Journal) -> None:
    change = journal.note(journal.begin(CHANGE), State.VERIFIED, "verified")
    assert journal.unfinished(CHANGE.server) is None
    assert journal.unfinished_at(CHANGE.address) is None
    assert journal.last(CHANGE.server) == change


def test_an_undo_takes_its_change_out_of_the_last_ones(journal: Journal) -> None:
    first = journal.note(journal.begin(CHANGE), State.VERIFIED, "verified")
    second = journal.note(journal.begin(CHANGE), State.VERIFIED, "verified")
    undo = journal.begin(replace(CHANGE, undoes=second.id))
    journal.note(undo, State.VERIFIED, "verified")
    assert journal.last(CHANGE.server) == first


def test_only_one_change_of_a_server_can_be_unfinished(journal: Journal) -> None:
    journal.begin(CHANGE)
    journal.begin(replace(CHANGE, server="another"))
    with pytest.raises(JournalError, match="UNIQUE"):
        journal.begin(CHANGE)


def test_the_journal_is_for_its_owner_only(journal: Journal) -> None:
    assert journal.path.stat().st_mode & 0o777 == 0o600
    assert journal.directory.stat().st_mode & 0o777 == 0o700


def test_two_processes_cannot_hold_the_same_server(journal: Journal) -> None:
    with (
        journal.hold("a server"),
        Journal(journal.directory) as other,
        other.hold("another server"),
        pytest.raises(Refused, match="another mrtuner"),
        other.hold("a server"),
    ):
        pass
    with journal.hold("a server"):
        pass


def test_a_killed_process_leaves_its_last_step_and_no_lock(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; sys.path[:0] = sys.argv[2:]\n"
        "from pathlib import Path\n"
        "from test_journal_store import CHANGE, Journal, State\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "with journal.hold(CHANGE.server):\n"
        "    journal.note(journal.begin(CHANGE), State.WRITING, 'write work_mem')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    arguments = [sys.executable, "-c", script, str(tmp_path), *sys.path]
    assert subprocess.run(arguments, check=False).returncode == -signal.SIGKILL
    with Journal(tmp_path) as journal, journal.hold(CHANGE.server):
        found = journal.unfinished(CHANGE.server)
        assert found is not None
        assert found.state is State.WRITING


@needs("root")
def test_a_full_disk_is_said_before_anything_else_happens(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this machine does not let us mount a filesystem")
    try:
        (tmp_path / "ballast").write_bytes(bytes(60 * 1024))
        with pytest.raises(JournalError, match=r"cannot use the journal .*(full|space|I/O)"):
            Journal(tmp_path)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="Not a directory"):
        Journal(tmp_path / "file" / "state")


def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite3").write_bytes(b"a letter to a friend" * 100)
    with pytest.raises(JournalError, match="not a database"):
        Journal(tmp_path)
    assert (tmp_path / "journal.sqlite3").read_bytes() == b"a letter to a friend" * 100


def test_texts_of_files_that_an_older_journal_kept_are_overwritten(tmp_path: Path) -> None:
    """Schema 1 kept all of postgresql.auto.conf, which may contain a password."""
    import sqlite3

    with Journal(tmp_path) as journal:
        journal.begin(CHANGE)
    secret = "primary_conninfo = 'password=hunter2'\n" * 1000  # several pages of the file
    db = sqlite3.connect(tmp_path / "journal.sqlite3")
    db.execute("UPDATE change SET contents = json_set(contents, '$.text_before', ?)", (secret,))
    db.execute("DROP TABLE document")
    db.execute("ALTER TABLE step DROP COLUMN rebooting")
    db.execute("PRAGMA user_version = 1")
    db.commit()
    db.close()
    assert b"hunter2" in (tmp_path / "journal.sqlite3").read_bytes()
    with Journal(tmp_path) as journal:
        found = journal.unfinished(CHANGE.server)
    assert found is not None
    assert (found.entries, found.text_before) == (CHANGE.entries, None)
    assert [f for f in tmp_path.rglob("*") if f.is_file() and b"hunter2" in f.read_bytes()] == []


def test_what_is_kept_under_a_name_is_overwritten_by_the_next(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        assert journal.kept("rotation of app") is None
        journal.keep("rotation of app", {"step": "planned"})
        journal.keep("rotation of app", {"step": "done", "old": None})
        journal.keep("rotation of shop", {"step": "storing"})
    with Journal(tmp_path) as journal:
        assert journal.kept("rotation of app") == {"step": "done", "old": None}
        assert journal.unfinished("rotation of app") is None


def test_a_newer_journal_is_not_touched(tmp_path: Path) -> None:
    import sqlite3

    Journal(tmp_path).close()
    db = sqlite3.connect(tmp_path / "journal.sqlite3")
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(UsageError, match=r"newer MrTuner \(schema 99\)"):
        Journal(tmp_path)


def test_the_directory_comes_from_the_caller_then_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MRTUNER_STATE_DIR", "/from/environment")
    assert journal_directory(tmp_path) == tmp_path
    assert journal_directory() == Path("/from/environment")
    monkeypatch.delenv("MRTUNER_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", "/home/me/state")
    if sys.platform == "linux":
        assert journal_directory() == Path("/home/me/state/mrtuner")


def test_an_accepted_reboot_is_recorded_by_its_instance_not_by_the_words_of_the_step(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path) as journal:
        change = journal.begin(OF_A_GROUP)
        journal.note(change, State.RESTARTING, "db2 is rebooting")
        assert journal.rebooted(change) == frozenset()
        journal.note(change, State.RESTARTING, "whatever is said of it", rebooting="db2")
    with Journal(tmp_path) as journal:
        assert journal.rebooted(change) == {"db2"}


def test_a_journal_that_did_not_record_reboots_yet_is_brought_up_to_date(tmp_path: Path) -> None:
    """Schema 3 had no column for them."""
    with Journal(tmp_path) as journal:
        change = journal.begin(OF_A_GROUP)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as db:
        db.execute("ALTER TABLE step DROP COLUMN rebooting")
        db.execute("PRAGMA user_version = 3")
        db.commit()
    with Journal(tmp_path) as journal:
        assert journal.steps(change) == ("planned",)
        journal.note(change, State.RESTARTING, "db1 is rebooting", rebooting="db1")
        assert journal.rebooted(change) == {"db1"}
