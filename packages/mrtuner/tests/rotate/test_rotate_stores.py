"""Where secrets go: files, commands, and stores that other packages bring."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from machine import needs
from mrtuner.errors import ApplyError, UsageError
from mrtuner.rotate.model import Credential
from mrtuner.rotate.stores import absolute, store

SECRET = Credential(username="app_green", password="pass word", host="db", port=5432, dbname="shop")
PLUGGED = """
kept = {}

class Store:
    readable = False
    def __init__(self, place):
        self.place = place
    def write(self, credential):
        kept[self.place] = credential.username
    def read(self):
        return None
    def restore(self, username):
        return False
"""


def test_a_file_keeps_what_is_not_the_user_s_nor_the_password_s(tmp_path: Path) -> None:
    path = tmp_path / "db.json"
    path.write_text('{"host": "pooler", "username": "app_blue", "password": "x", "note": 1}')
    path.chmod(0o640)
    store(f"file:{path}", io.StringIO()).write(SECRET)
    assert json.loads(path.read_text()) == {
        "engine": "postgres", "host": "pooler", "port": 5432, "dbname": "shop",
        "username": "app_green", "password": "pass word", "note": 1,
    }  # fmt: skip
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(each.name for each in tmp_path.iterdir()) == ["db.json", "db.json.previous"]
    assert (tmp_path / "db.json.previous").stat().st_mode & 0o777 == 0o600


@needs("root")
def test_an_application_that_is_another_user_goes_on_reading_its_file(tmp_path: Path) -> None:
    path, link = tmp_path / "db.json", tmp_path / "link"
    path.write_text("{}")
    os.chown(path, 4711, 4712)
    link.symlink_to(path)
    store(f"file:{link}", io.StringIO()).write(SECRET)
    status = path.stat()
    assert (status.st_uid, status.st_gid) == (4711, 4712)
    assert json.loads(link.read_text())["username"] == "app_green"
    assert link.is_symlink()


def test_the_journal_names_a_file_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("file:db.json") == f"file:{tmp_path}/db.json"
    assert absolute("vault kv put secret/db -") == "vault kv put secret/db -"


def test_a_file_comes_back_only_if_it_was_of_the_role_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "db.json"
    before = '{"username": "app_blue", "password": "x"}'
    path.write_text(before)
    file = store(f"file:{path}", io.StringIO())
    file.write(SECRET)
    file.write(SECRET)  # a second try of the same rotation
    assert not file.restore("app")
    assert file.restore("app_blue")
    assert path.read_text() == before


def test_a_file_that_was_not_there_is_gone_again(tmp_path: Path) -> None:
    file = store(f"file:{tmp_path}/db.json", io.StringIO())
    file.write(SECRET)
    file.write(SECRET)
    assert file.restore("app")
    assert not (tmp_path / "db.json").exists()


@pytest.mark.parametrize("text", ["password=hidden", '["hidden"]'])
def test_what_is_no_json_object_is_left_alone_and_not_quoted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "db.ini"
    path.write_text(text)
    with pytest.raises(ApplyError, match="it is not a JSON object") as caught:
        store(f"file:{path}", io.StringIO()).write(SECRET)
    assert "hidden" not in str(caught.value)
    assert path.read_text() == text


def test_a_command_may_print_what_is_no_text(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    store(f"sh -c 'cat > {kept}; printf \\\\377'", io.StringIO()).write(SECRET)
    assert json.loads(kept.read_text())["username"] == "app_green"


def test_what_a_failing_command_says_is_not_repeated() -> None:
    with pytest.raises(ApplyError) as caught:
        store("sh -c 'cat >&2; exit 3'", io.StringIO()).write(SECRET)
    assert caught.value.message == "sh did not accept the secret: exit code 3"


@pytest.mark.parametrize("named", ["", "'unclosed"])
def test_a_command_that_is_none_is_a_usage_error(named: str) -> None:
    with pytest.raises(UsageError, match="cannot parse the command of --to"):
        store(named, io.StringIO())


def test_a_package_brings_a_store_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plugged_store.py").write_text(PLUGGED)
    known = tmp_path / "plugged_store-1.dist-info"
    known.mkdir()
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged-store\nVersion: 1\n")
    (known / "entry_points.txt").write_text(
        "[mrtuner.rotate.stores]\nplugged = plugged_store:Store\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    store("plugged:place", io.StringIO()).write(SECRET)
    import plugged_store  # type: ignore[import-not-found]

    assert plugged_store.kept == {"place": "app_green"}


def test_a_credential_never_shows_its_password() -> None:
    assert "pass word" not in repr(SECRET)
