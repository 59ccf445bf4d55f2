"""Rotations are read back from the journal; a damaged one is an error."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from mrtuner.change.journal import Journal, JournalError
from mrtuner.rotate.journal import RotationJournal
from mrtuner.rotate.model import BegunStep, RotationState, RotationStep


def test_the_steps_that_began_come_back_from_the_disk(tmp_path: Path) -> None:
    planned = RotationState(
        server="7", address="db:5432", group="app", old=None, new="app_green", to="stdout",
        began="2026-01-01T00:00:00.000+00:00",
    )  # fmt: skip
    rotation = planned.at(RotationStep.STORING, "2026-01-01T00:00:01.000+00:00")
    with Journal(tmp_path) as journal:
        RotationJournal(journal).write(rotation)
    with Journal(tmp_path) as journal:
        found = RotationJournal(journal).last("7", "db:5432", "app")
    assert found == rotation
    assert found.steps == (BegunStep(RotationStep.STORING, "2026-01-01T00:00:01.000+00:00"),)
    assert (found.reached(RotationStep.STORING), found.reached(RotationStep.WAITING)) == (
        True,
        False,
    )


@pytest.mark.parametrize("contents", ["{torn", "{}", '{"step": "dancing", "steps": []}'])
def test_a_damaged_rotation_is_an_error_of_the_journal(tmp_path: Path, contents: str) -> None:
    with Journal(tmp_path) as journal:
        journal.keep("rotation of app on 7 at db:5432", {})
        db = sqlite3.connect(journal.path)
        db.execute("UPDATE document SET contents = ?", (contents,))
        db.commit()
        db.close()
        with pytest.raises(JournalError, match="cannot use the journal"):
            RotationJournal(journal).last("7", "db:5432", "app")
