"""From a recorded change to the entry of MrTuner's journal that made it, and back to a server."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from history_data import MIDNIGHT, SECOND, sample
from history_story import BEGIN, INSTANCE, of_source
from served import DESK, HOUR, Viewer, in_a_browser, opened, rows, serving_here, violations

from mrtuner.change.journal import Journal, changes_with_steps
from mrtuner.change.record import Change, GroupChange, ParameterChange, State
from mrtuner.errors import MrTunerError
from mrtuner.history.recording.sampler import Identity
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Batch, HistoryEvent, Writer
from mrtuner.web.journal import _same

#: At 02:30 of the story, max_wal_size went from 1024 to 4096 MB.
HALF_PAST = datetime.fromtimestamp(MIDNIGHT // SECOND, UTC) + timedelta(seconds=BEGIN + 1800)
SYSTEM = "7300000000000000001"
HOSTILE = "<img src=x onerror=document.title='run'>"


def change(**more: Any) -> Change:
    """The change of the story: 1 GB becomes 4 GB; and a secret that must not be shown."""
    entries = (
        ParameterChange(
            name="max_wal_size", before=None, after="4GB", restart=False, in_force="1024"
        ),
        ParameterChange(
            name="primary_conninfo", before="password=geheim", after="password=geheim2",
            restart=True, in_force="",
        ),
    )  # fmt: skip
    return replace(
        Change(
            server=f"{SYSTEM}@local:/data:5432", address="db:5432", method="include file",
            entries=entries, restarts=False, system_identifier=SYSTEM, file=f"/etc/{HOSTILE}",
            text_before="password=geheim3", text_after="password=geheim4",
        ),
        **more,
    )  # fmt: skip


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of this user's journal."""
    directory = tmp_path / "state"
    monkeypatch.setenv("MRTUNER_STATE_DIR", str(directory))
    return directory


@pytest.fixture
def store(recorded: Path, tmp_path: Path) -> Path:
    """The hour of the story, of a server with an identity, restarted at 02:45."""
    directory = tmp_path / "store"
    shutil.copytree(recorded, directory)
    identity = Identity(version_num=180_000, started="now", system=SYSTEM, standby=False)
    restart = HistoryEvent(
        at=MIDNIGHT + (BEGIN + 2700) * SECOND, instance=INSTANCE, kind="restart", detail="started"
    )
    with Writer(directory, built_in().values()) as writer:
        writer.commit([Batch(instance=INSTANCE, identity=identity, events=(restart,))])
    return directory


def written(at: datetime, of: Change, *steps: State) -> int:
    """Write a change into the journal as if it was made at that time; return its number."""
    clock = [at]

    def now() -> datetime:
        clock[0] += timedelta(seconds=1)
        return clock[0]

    with Journal(clock=now) as book:
        made = book.begin(of)
        for one in steps:
            made = book.note(made, one, f"{one} {HOSTILE}")
    return made.id


@pytest.fixture
def served_with(store: Path) -> Iterator[Viewer]:
    with serving_here(store) as viewer:
        yield viewer


def setting(viewer: Viewer) -> tuple[str, str | None]:
    """Return who changed max_wal_size, according to a screen, and the journal's entry."""
    (found,) = [one for one in viewer.screen("wal")["changes"] if one["what"] == "setting"]
    return found["by"], found["journal"]


def test_a_change_that_mrtuner_made_leads_to_its_entry(state: Path, store: Path) -> None:
    number = written(HALF_PAST - timedelta(seconds=20), change(), State.WRITING, State.VERIFIED)
    with serving_here(store) as viewer:
        assert setting(viewer) == (f"MrTuner's change {number}", str(number))
        screen = viewer.screen("changes", f"{HOUR}&change={number}")
    entry = {row["what"]: row["value"] for row in rows(screen, "entry")}
    assert entry["change"] == "1, verified"
    assert entry["when"] == "2026-11-23 02:29:41 UTC"
    assert entry["who"].startswith("user ")
    assert entry["server"] == "db:5432"
    assert entry["undo"] == (
        f"mrtuner undo 'host=db port=5432 dbname=postgres' --restart ask --journal {state}"
    )
    assert rows(screen, "entry_settings") == [
        {"name": "max_wal_size", "before": "unset", "after": "4GB", "restart": "at once"},
        {"name": "primary_conninfo", "before": "(set, 37)", "after": "(set, 20)",
         "restart": "at a restart"},
    ]  # fmt: skip
    assert next(row["step"] for row in rows(screen, "entry_steps")) == "planned"
    assert "geheim" not in str(screen)
    changes = {row["what"]: row for row in rows(screen, "changes")}
    assert (changes["setting"]["by"], changes["setting"]["journal"]) == ("MrTuner's change 1", "1")
    # The entry asked for no restart.
    assert changes["restart"]["by"] == "not changed by MrTuner"


@pytest.mark.parametrize(
    ("name", "text", "recorded"),
    [
        ("work_mem", "4MB", "4096"),
        ("io_worker_idle_timeout", "60s", "60000"),  # since 19
        ("old_snapshot_threshold", "1h", "60"),  # until 16
        ("app.user", "x", "x"),
    ],
)
def test_a_value_is_compared_in_the_unit_of_whatever_version_has_it(
    name: str, text: str, recorded: str
) -> None:
    assert _same(name, text, recorded)
    assert not _same(name, text, f"{recorded}1")


def test_a_restart_that_mrtuner_asked_for_is_its_own(state: Path, store: Path) -> None:
    late = HALF_PAST + timedelta(seconds=890)
    written(late, change(restarts=True), State.RESTARTING, State.VERIFIED)
    with serving_here(store) as viewer:
        found = {one["what"]: one for one in viewer.screen("wal")["changes"]}
    assert found["restart"]["by"] == "MrTuner's change 1"
    # It came after max_wal_size had changed.
    assert found["setting"]["by"] == "not changed by MrTuner"


@pytest.mark.parametrize(
    "of",
    [
        change(entries=(replace(change().entries[0], after="2GB"),)),
        change(entries=(replace(change().entries[0], name="wal_keep_size"),)),
        change(system_identifier="1", server="1@local:/data:5432"),
    ],
    ids=["another value", "another setting", "another server"],
)
def test_a_change_that_mrtuner_did_not_make_is_told_so(
    state: Path, store: Path, of: Change
) -> None:
    written(HALF_PAST - timedelta(seconds=20), of, State.VERIFIED)
    with serving_here(store) as viewer:
        assert setting(viewer) == ("not changed by MrTuner", None)


def test_a_value_that_went_away_in_between_came_back_by_somebody_else(
    state: Path, store: Path
) -> None:
    """MrTuner set the value an hour before; it was undone by hand, and then set again by hand."""
    settings = built_in()["settings"]
    common = {"name": "max_wal_size", "unit": "MB", "origin": "file", "pending": False}
    earlier = [
        sample(settings, at, of_source("settings", value=value, **common))
        for at, value in ((BEGIN - 3600, "1024"), (BEGIN - 1800, "4096"), (BEGIN - 900, "1024"))
    ]
    with Writer(store, built_in().values()) as writer:
        writer.commit([Batch(instance=INSTANCE, samples=tuple(earlier))])
    written(HALF_PAST - timedelta(hours=1), change(), State.VERIFIED)
    with serving_here(store) as viewer:
        found = viewer.screen("changes", "from=2026-11-23T01:00&to=2026-11-23T03:00")["changes"]
    assert [one["by"] for one in found if one["detail"].endswith("→ 4GB")] == [
        "MrTuner's change 1", "not changed by MrTuner",
    ]  # fmt: skip


def test_a_parameter_group_that_mrtuner_attached_leads_to_its_entry(
    state: Path, store: Path
) -> None:
    """On an instance of RDS, whose class was changed by somebody else, without a journal."""
    machine = built_in()["machine"]
    facts = [
        {"identifier": "shop-prod", "class_name": kind, "parameter_group": group}
        for kind, group in (("db.r5.large", "default.postgres15"), ("db.r5.xlarge", "shop"))
    ]
    samples = [
        sample(machine, at, *(
            of_source("machine", name=name, value=value) for name, value in one.items()
        ))
        for at, one in zip((BEGIN, BEGIN + 1860), facts, strict=True)
    ]  # fmt: skip
    told = HistoryEvent(
        at=MIDNIGHT + (BEGIN + 1830) * SECOND, instance=INSTANCE, kind="rds", detail=HOSTILE
    )
    with Writer(store, built_in().values()) as writer:
        writer.commit([Batch(instance=INSTANCE, samples=tuple(samples), events=(told,))])
    group = GroupChange(
        region="eu-central-1", scope="db", identifier="shop-prod", name="shop",
        family="postgres15", attached_before="default.postgres15", attached_after="shop",
    )  # fmt: skip
    made = change(
        method="parameter group", group=group, server="arn:x", address="eu-central-1/shop-prod",
        system_identifier=None, file=None,
    )  # fmt: skip
    written(HALF_PAST, made, State.ATTACHING, State.VERIFIED)
    with serving_here(store) as viewer:
        screen = viewer.screen("changes", f"{HOUR}&change=1")
    by = {one["detail"].partition(":")[0]: one["by"] for one in screen["changes"]}
    assert by["parameter_group"] == "MrTuner's change 1"
    assert by[HOSTILE] == "MrTuner's change 1"
    assert by["class_name"] == ""
    entry = {row["what"]: row["value"] for row in rows(screen, "entry")}
    assert entry["parameter group"] == "shop"
    assert entry["undo"] == (f"rdstune undo shop-prod --region eu-central-1 --journal {state}")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("db:5432/my db", r"""'host=db port=5432 dbname='"'"'my db'"'"''"""),
        ("/run/pg:5432/a:1/b", "'host=/run/pg port=5432 dbname=a:1/b'"),
        ("::1:5432/app", "'host=::1 port=5432 dbname=app'"),
    ],
)
def test_the_command_that_undoes_a_change_names_any_database(
    state: Path, store: Path, address: str, words: str
) -> None:
    made = change(
        server=f"16384 in {SYSTEM}", address=address, method="storage parameters",
        system_identifier=None, file=None,
    )  # fmt: skip
    written(HALF_PAST, made, State.VERIFIED)
    with serving_here(store) as viewer:
        screen = viewer.screen("changes", f"{HOUR}&change=1")
    entry = {row["what"]: row["value"] for row in rows(screen, "entry")}
    assert entry["undo"] == f"mrtuner vacuum undo {words} --journal {state}"


def test_an_undone_change_says_so_and_a_later_one_comes_first(state: Path, store: Path) -> None:
    first = written(HALF_PAST, change(), State.VERIFIED)
    second = written(HALF_PAST, change(), State.VERIFIED)
    with serving_here(store) as viewer:
        before = viewer.screen("changes", f"{HOUR}&change={first}")
        written(HALF_PAST, change(undoes=second), State.VERIFIED)
        after = viewer.screen("changes", f"{HOUR}&change={second}")
    (undo,) = [row["value"] for row in rows(before, "entry") if row["what"] == "undo"]
    assert undo.startswith("after change 2 was taken back the same way: mrtuner undo ")
    assert {"what": "undo", "value": "it has been undone"} in rows(after, "entry")


@pytest.mark.usefixtures("state")
def test_without_a_journal_that_is_said_and_none_is_made(served_with: Viewer, state: Path) -> None:
    assert setting(served_with) == ("no journal of MrTuner here", None)
    assert not state.exists()
    status, message, _ = served_with.refused("api/screens/changes?change=7")
    assert (status, message) == (404, f"the journal has no change 7 of {INSTANCE}")
    assert served_with.refused("api/screens/changes?change=x")[0] == 400


def test_a_journal_that_cannot_be_read_is_told_and_the_screen_is_there(
    state: Path, store: Path
) -> None:
    state.mkdir()
    (state / "journal.sqlite3").write_text("no database", encoding="utf-8")
    with serving_here(store) as viewer:
        by, entry = setting(viewer)
    assert entry is None
    assert by.startswith("not known: cannot use the journal")


def test_reading_the_journal_writes_nothing(state: Path) -> None:
    written(HALF_PAST, change(), State.VERIFIED)
    before = {path: path.stat().st_mtime_ns for path in state.iterdir()}
    found = changes_with_steps()
    assert found is not None
    assert [len(steps) for _, steps in found] == [2]
    assert {path: path.stat().st_mtime_ns for path in state.iterdir()} == before


def test_a_journal_of_a_newer_version_is_refused(state: Path) -> None:
    written(HALF_PAST, change(), State.VERIFIED)
    with sqlite3.connect(state / "journal.sqlite3") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(MrTunerError, match="it has schema 99"):
        changes_with_steps()
    assert [path.name for path in state.iterdir()] == ["journal.sqlite3"]


@in_a_browser
def test_the_page_leads_from_a_change_to_its_entry(browser: Any, state: Path, store: Path) -> None:
    written(HALF_PAST - timedelta(seconds=20), change(), State.VERIFIED)
    with serving_here(store) as viewer, opened(browser, viewer.address, DESK) as opening:
        tab = opening.open("screen=wal&from=1795399200&to=1795402800")
        tab.click("details.changes summary")
        tab.click("details.changes a:has-text('max_wal_size')")
        tab.wait_for_selector("[data-table=entry]:focus")
        assert "mrtuner undo" in tab.inner_text("[data-table=entry]")
        assert HOSTILE in tab.inner_text("[data-table=entry]")
        assert violations(tab) == []
        tab.click("[data-table=changes] td a:has-text('change 1')")
        tab.wait_for_selector("[data-table=entry]:focus")
        assert tab.title() == "MrTuner"
