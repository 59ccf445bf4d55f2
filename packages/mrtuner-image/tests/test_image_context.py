"""What is in a context, and what should not be."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from mrtuner.errors import UsageError
from mrtuner_image.context import Context, by_directory, read_context
from mrtuner_image.ignore import IgnoreRules, rules_of
from mrtuner_image.not_ignored import misplaced


def a_context(root: Path, sizes: dict[str, int], *ignored: str) -> Context:
    for name, size in sizes.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    return read_context(root, rules_of(ignored))


def test_bytes_are_those_of_an_archive(tmp_path: Path) -> None:
    """By hand: three headers (a, a/b, c), 600 bytes as two blocks, and two blocks at the end."""
    found = a_context(tmp_path, {"a/b": 600, "c": 0})
    assert found.sent == 3 * 512 + 2 * 512 + 2 * 512
    assert found.files == 2


def test_directories_are_listed_largest_first(tmp_path: Path) -> None:
    found = a_context(tmp_path, {"small/x": 10, "large/in/x": 5000, "large/y": 10, "top": 2000})
    shown = [(share.path, share.files) for share in by_directory(found)]
    assert shown == [("large", 2), ("large/in", 1), (".", 1), ("small", 1)]


def test_what_is_ignored_is_not_counted(tmp_path: Path) -> None:
    found = a_context(tmp_path, {"logs/a.log": 9999, "app.py": 1}, "logs")
    assert [entry.path for entry in found.entries] == ["app.py"]


def test_links_are_not_followed_and_sockets_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "out").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        found = read_context(tmp_path, IgnoreRules())
    kinds = [(entry.path, entry.kind) for entry in found.entries]
    assert kinds == [("loop", "symlink"), ("out", "symlink"), ("pipe", "other")]


def test_a_file_with_two_names_is_sent_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 512)
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    assert [entry.size for entry in read_context(tmp_path, IgnoreRules()).entries] == [512, 0]


def test_sparse_files_count_with_their_whole_length(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10_000_000)
    assert read_context(tmp_path, IgnoreRules()).entries[0].size == 10_000_000


def test_names_that_are_no_utf8_are_read(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.log")).touch()
    assert read_context(tmp_path, rules_of(["?.log"])).entries == ()


def test_a_context_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a directory"):
        read_context(tmp_path / "nowhere", IgnoreRules())


def test_what_must_not_travel_is_found_secrets_first(tmp_path: Path) -> None:
    found = misplaced(
        a_context(
            tmp_path,
            {
                ".git/objects/1": 4000, "node_modules/a/index.js": 3000, "log/app.log": 2000,
                ".env": 10, ".env.example": 10, "certs/tls.key": 20, "app/main.py": 50,
                "data/PG_VERSION": 3, "data/base/1": 900, "dump.sql.gz": 100,
                "node_modules/a/test.pem": 5, "log/empty/.env": 1,
            },
        )
    )  # fmt: skip
    assert [(one.what, one.path) for one in found] == [
        ("secret", ".env"), ("secret", "certs/tls.key"), ("secret", "log/empty/.env"),
        ("secret", "node_modules/a/test.pem"), ("version control", ".git"),
        ("dependencies", "node_modules"), ("log", "log"), ("database", "data"),
        ("database", "dump.sql.gz"),
    ]  # fmt: skip


def test_nothing_is_missed_where_the_ignore_file_names_it(tmp_path: Path) -> None:
    sizes = {".git/config": 1, "a/.env": 1, "main.py": 1}
    assert misplaced(a_context(tmp_path, sizes, ".git", "**/.env")) == []


@pytest.mark.parametrize(
    ("files", "found"),
    [
        # A package called log, as Go, Python and Ruby have them; its logs are still logs.
        ({"log/log.go": "package log", "log/old.log": "x"}, []),
        ({"internal/logs/__init__.py": ""}, []),
        ({"log/production.log": "x", "log/.keep": ""}, ["log"]),
        # npm's settings, with a token or without.
        ({".npmrc": "registry=https://npm.example.com/\n"}, []),
        ({".npmrc": "//npm.example.com/:_authToken=${NPM_TOKEN}\n"}, []),
        ({".npmrc": "//npm.example.com/:_authToken=abc\n"}, [".npmrc"]),
        ({".npmrc": '//npm.example.com/:_authToken="${NPM_TOKEN}"\n'}, []),
        ({".npmrc": "_auth = abc\n"}, [".npmrc"]),
        ({".npmrc": "registry=https://user:abc@npm.example.com/\n"}, [".npmrc"]),
        ({".pypirc": "[pypi]\nusername = a\n"}, []),
        ({".pypirc": "[pypi]\npassword = a\n"}, [".pypirc"]),
        ({".pypirc": "[pypi]\npassword: a\n"}, [".pypirc"]),
        # What .NET builds, beside its project; a directory of this name elsewhere is anyone's.
        ({"app/app.csproj": "", "app/obj/a.json": "", "app/bin/deploy.sh": ""}, ["app/obj"]),
        ({"bin/rails": "", "obj/chair.obj": ""}, []),
        # Yarn's own cache, committed on purpose.
        ({".yarn/cache/left-pad.zip": "x", ".pnp.cjs": ""}, []),
    ],
)  # fmt: skip
def test_a_name_alone_makes_no_file_misplaced(
    tmp_path: Path, files: dict[str, str], found: list[str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    missed = misplaced(read_context(tmp_path, rules_of([])))
    assert sorted(one.path for one in missed if one.path != "log/old.log") == found
