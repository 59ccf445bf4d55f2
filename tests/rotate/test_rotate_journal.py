"""A rotation that the journal cannot tell any more."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from mrtuner.change.journal import Journal, JournalError
from mrtuner.rotate.journal import RotationJournal


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
