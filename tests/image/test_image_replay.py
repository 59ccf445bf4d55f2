"""What is replayed: commits of a real repository, or generated edits, in both forms."""

from __future__ import annotations

import os
import random
import socket
import subprocess
from pathlib import Path

import pytest

from mrtuner.errors import UsageError
from mrtuner.image.context import read_context
from mrtuner.image.ignore import rules_for
from mrtuner.image.kinds import kind_of_all
from mrtuner.image.proof import contexts
from mrtuner.image.proof.replay import Commits, Edits, commits, edits
from mrtuner.image.tree import Tree


def git(directory: Path, *words: str) -> None:
    named = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *named, *words], cwd=directory, check=True, capture_output=True)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def content(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()
    }


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Four commits: the first has no parent, the third does not touch `app`."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "--quiet")
    steps = [
        {"app/main.py": "1", "app/Dockerfile": "FROM old\n", "app/gone": "x"},
        {"app/main.py": "2", "app/Gemfile.lock": "2"},
        {"README": "3"},
        {"app/logo.png": "4"},
    ]
    for number, files in enumerate(steps):
        write(root, files)
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", f"step {number}")
    (root / "app/gone").unlink()
    git(root, "commit", "--quiet", "--all", "--message", "step 4")
    write(root, {"app/untracked.log": "log", "app/Dockerfile": "FROM scratch\n", "app/new": "n"})
    return root


def found_in(directory: Path, most: int = 10) -> Commits:
    found = commits(Tree(directory, directory / "Dockerfile"), most)
    assert found is not None
    return found


def test_the_commits_that_touch_the_directory_are_replayed(repository: Path) -> None:
    found = found_in(repository / "app")
    assert [(one.name.partition(" ")[2], one.kind) for one in found.changes] == [
        ("step 4", "other"), ("step 3", "asset"), ("step 1", "dependencies"),
    ]  # fmt: skip
    assert len(found_in(repository / "app", 2).changes) == 2


def test_a_copy_is_brought_to_a_commit_and_keeps_what_is_untracked(
    repository: Path, tmp_path: Path
) -> None:
    found, copy = found_in(repository / "app"), tmp_path / "copy"
    contexts.copy_tree(repository / "app", copy)
    before = content(repository / "app")
    found.write(copy, found.changes[-1].state)  # step 1
    today = {"untracked.log": "log", "new": "n"}
    assert content(copy) == today | {
        "main.py": "2", "Gemfile.lock": "2", "gone": "x", "Dockerfile": "FROM old\n",
    }  # fmt: skip
    found.write(copy, found.changes[-1].parent)  # step 0
    assert content(copy) == today | {"main.py": "1", "gone": "x", "Dockerfile": "FROM old\n"}
    found.write(copy, found.changes[0].state)  # step 4
    assert content(copy) == today | {
        "main.py": "2", "Gemfile.lock": "2", "logo.png": "4", "Dockerfile": "FROM old\n",
    }  # fmt: skip
    assert content(repository / "app") == before


def test_what_is_a_forms_own_stays_as_it_is(repository: Path, tmp_path: Path) -> None:
    old, new = repository / "app", tmp_path / "new"
    contexts.copy_tree(old, new)
    write(new, {"Dockerfile": "FROM better\n", ".dockerignore": "*.log\n"})
    (new / "main.py").unlink()
    forms = contexts.forms(old, new, [old / "Dockerfile", new / "Dockerfile"])
    assert forms.own == {"Dockerfile", ".dockerignore", "main.py"}
    found, copy = found_in(old), tmp_path / "copy"
    contexts.copy_tree(new, copy)
    found.write(copy, found.changes[-1].state)
    forms.settle(copy, new)
    assert content(copy) == {
        "Dockerfile": "FROM better\n", ".dockerignore": "*.log\n", "untracked.log": "log",
        "new": "n", "Gemfile.lock": "2", "gone": "x",
    }  # fmt: skip


def test_without_a_repository_edits_are_generated(tmp_path: Path) -> None:
    root = tmp_path / "app"
    files = {"main.py": "1", "more.py": "1", "Gemfile.lock": "1", "x.log": "1", "Dockerfile": "1"}
    write(root, files | {".dockerignore": "*.log\n"})
    context = read_context(root, rules_for(root, root / "Dockerfile"))
    found = edits(context, frozenset({"Dockerfile", ".dockerignore"}), 3, random.Random(1))
    assert [one.kind for one in found.changes] == ["dependencies"] * 3 + ["code"] * 3
    copy = tmp_path / "copy"
    contexts.copy_tree(root, copy)
    for change in found.changes:
        found.write(copy, change.parent)
        assert content(copy) == content(root)
        found.write(copy, change.state)
        changed = {name for name, text in content(copy).items() if text != content(root)[name]}
        assert changed <= {"main.py", "more.py", "Gemfile.lock"}
        assert len(changed) == 1
        assert len(content(copy)[changed.pop()].strip()) == 1  # only empty lines were added


def test_no_edit_is_made_twice(tmp_path: Path) -> None:
    write(tmp_path, {"main.py": "1"})
    context = read_context(tmp_path, rules_for(tmp_path, tmp_path / "Dockerfile"))
    found: Edits = edits(context, frozenset(), 5, random.Random(1))
    assert len({one.state for one in found.changes}) == 5


def test_a_directory_without_files_has_nothing_to_edit(tmp_path: Path) -> None:
    context = read_context(tmp_path, rules_for(tmp_path, tmp_path / "Dockerfile"))
    with pytest.raises(UsageError, match="no file that can be edited"):
        edits(context, frozenset(), 5, random.Random(1))


def test_a_directory_that_no_commit_touches_is_in_no_repository_for_us(
    repository: Path, tmp_path: Path
) -> None:
    (repository / "fresh").mkdir()
    write(repository / "fresh", {"x": "1"})
    for root in (repository / "fresh", tmp_path):
        assert commits(Tree(root, root / "Dockerfile"), 5) is None


def test_of_a_shallow_repository_the_commits_with_their_parents_are_replayed(
    repository: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "--quiet", "--depth=2", f"file://{repository}", "shallow")
    found = found_in(tmp_path / "shallow/app")
    assert [one.name.partition(" ")[2] for one in found.changes] == ["step 4"]


def test_a_copy_has_everything_that_a_directory_may_hold(tmp_path: Path) -> None:
    root, copy = tmp_path / "app", tmp_path / "copy"
    root.mkdir()
    odd = os.fsdecode(b"\xff")
    (root / odd).write_text("1")
    (root / "loop").symlink_to("loop")
    (root / "out").symlink_to("/etc/hostname")
    os.mkfifo(root / "pipe")
    with (root / "sparse").open("wb") as file:
        file.truncate(1 << 26)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket"))
        contexts.copy_tree(root, copy)
        write(copy, {"more": "1"})
        assert contexts.forms(root, copy, []).own == {"more"}
    assert (copy / odd).read_text() == "1"
    assert (copy / "loop").readlink() == Path("loop")
    assert (copy / "pipe").is_fifo()
    assert (copy / "sparse").stat().st_blocks < 1000


def test_equal_directories_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name, {"Dockerfile": "FROM scratch\n", ".git/HEAD": name})
    with pytest.raises(UsageError, match="have the same files"):
        contexts.forms(tmp_path / "a", tmp_path / "b", [])


def test_a_mode_or_a_link_is_a_difference(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name, {"x": "1", "y": "1"})
        (tmp_path / name / "link").symlink_to(name)
    (tmp_path / "a/x").chmod(0o600)
    assert contexts.forms(tmp_path / "a", tmp_path / "b", []).own == {"x", "link"}


def test_a_patch_is_applied_to_a_copy(repository: Path, tmp_path: Path) -> None:
    app, patch = repository / "app", tmp_path / "a.patch"
    patch.write_text(
        "--- a/Dockerfile\n+++ b/Dockerfile\n@@ -1 +1 @@\n-FROM scratch\n+FROM better\n"
    )
    contexts.patched(app, patch, tmp_path / "new")
    assert (tmp_path / "new/Dockerfile").read_text() == "FROM better\n"
    assert (app / "Dockerfile").read_text() == "FROM scratch\n"
    patch.write_text(patch.read_text().replace("scratch", "other"))
    with pytest.raises(UsageError, match="does not apply") as refused:
        contexts.patched(app, patch, tmp_path / "newer")
    assert "git diff --relative" in str(refused.value.hint)


def test_a_patch_cannot_leave_the_directory(repository: Path, tmp_path: Path) -> None:
    patch = tmp_path / "a.patch"
    patch.write_text("--- /dev/null\n+++ b/../outside\n@@ -0,0 +1 @@\n+x\n")
    with pytest.raises(UsageError, match="does not apply"):
        contexts.patched(repository / "app", patch, tmp_path / "new")
    assert not (tmp_path / "outside").exists()


def test_a_commit_is_of_the_dearest_kind_that_it_touches() -> None:
    assert kind_of_all(["x.png", "main.py", "Gemfile.lock"]) == "dependencies"
    assert kind_of_all(["x.png", "main.py"]) == "code"
    assert kind_of_all([]) == "other"
