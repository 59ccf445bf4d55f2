"""Commits of a repository, replayed: the first line that each misses, and expected deploys."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mrtuner.errors import MissingPart, UsageError
from mrtuner_image.advice.ranking import advise
from mrtuner_image.commits import is_shallow, read_commits
from mrtuner_image.cost import cost
from mrtuner_image.dockerfile import Builder
from mrtuner_image.document import cost_document
from mrtuner_image.text import lines
from mrtuner_image.tree import tree_of

RECIPE = (
    "FROM python\nCOPY requirements.txt /\nRUN pip install -r /requirements.txt\nCOPY src /src\n"
)


def git(root: Path, *words: str) -> None:
    nobody = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run(
        ["git", *who, *words], cwd=root, check=True, capture_output=True,
        env={**os.environ, **nobody},
    )  # fmt: skip


def commit(root: Path, subject: str, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        with (root / path).open("a") as file:
            file.write(f"{subject}\n")
    git(root, "add", "-A")
    git(root, "commit", "-m", subject)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A repository whose directory `app` is built; what is beside it is not."""
    root = tmp_path / "app"
    root.mkdir()
    git(tmp_path, "init", "-q")
    (root / "Dockerfile").write_text(RECIPE)
    commit(tmp_path, "first", "app/src/main.py", "app/requirements.txt", "app/src/old.py")
    commit(tmp_path, "code", "app/src/main.py", "notes")
    commit(tmp_path, "beside", "notes")
    commit(tmp_path, "dependencies", "app/requirements.txt", "app/src/main.py")
    (root / "src/old.py").unlink()
    commit(tmp_path, "removed")
    commit(tmp_path, "no line copies it", "app/README")
    (root / "Dockerfile").write_text(RECIPE + "CMD x\n")
    commit(tmp_path, "recipe")
    git(tmp_path, "checkout", "-q", "-b", "side", "HEAD~1")
    commit(tmp_path, "side one", "app/src/a\u00e9 b.py")
    commit(tmp_path, "side two", "app/src/main.py")
    git(tmp_path, "checkout", "-q", "main")
    git(tmp_path, "merge", "-q", "--no-ff", "-m", "merged", "side")
    return root


def test_a_file_that_the_builder_does_not_read_is_no_recipe(app: Path) -> None:
    """Podman reads a .containerignore, BuildKit does not."""
    commit(app.parent, "podman's", "app/.containerignore")
    builders: tuple[Builder, ...] = ("podman", "buildkit")
    found = [read_commits(tree_of(app, builder=one), 1)[0].recipe for one in builders]
    assert found == [True, False]


def test_commits_are_those_of_the_directory_and_a_merge_is_one(app: Path) -> None:
    found = read_commits(tree_of(app), 50)
    assert [(one.subject, one.paths, one.recipe) for one in found] == [
        ("merged", ("src/a\u00e9 b.py", "src/main.py"), False),
        ("recipe", ("Dockerfile",), True),
        ("no line copies it", ("README",), False),
        ("removed", ("src/old.py",), False),
        ("dependencies", ("requirements.txt", "src/main.py"), False),
        ("code", ("src/main.py",), False),
        ("first", ("Dockerfile", "requirements.txt", "src/main.py", "src/old.py"), True),
    ]
    assert [one.subject for one in read_commits(tree_of(app), 2)] == ["merged", "recipe"]


def test_each_commit_misses_the_first_line_that_copies_what_it_changed(app: Path) -> None:
    """By hand: a removed file changes its directory; only a build tells the size of line 3."""
    found = cost(app, history=50).commits
    assert found is not None
    assert [(one.commit.subject, one.first) for one in found] == [
        ("merged", 4), ("recipe", None), ("no line copies it", None), ("removed", 4),
        ("dependencies", 2), ("code", 4), ("first", None),
    ]  # fmt: skip
    assert [one.kind for one in found] == [
        "code", "other", "other", "code", "dependencies", "code", "dependencies",
    ]  # fmt: skip
    manifests, code = found[4], found[5]
    assert code.pushed.unknown == ()
    assert manifests.pushed.unknown == (3,)
    assert manifests.pushed.bytes > code.pushed.bytes > 0


def test_commits_are_counted_by_line_and_kind_of_change(app: Path) -> None:
    shown = "\n".join(lines(cost_document(cost(app, history=50))))
    assert "The last 7 commits, replayed; 2 changed the Dockerfile or its ignore file" in shown
    rows = [row.split() for row in shown.partition("replayed;")[2].splitlines()]
    counts = [row[:3] for row in rows if row[1:2] and row[1] in {"code", "dependencies", "other"}]
    assert counts == [["2", "dependencies", "1"], ["4", "code", "3"], ["none", "other", "1"]]


def test_deploys_are_as_often_as_the_history_says(app: Path) -> None:
    """By hand: five commits count; four of them copy src again, one of these also installs."""
    found = advise(app, history=50)
    shares = {line.line: line.rebuilt for line in found.before.lines}
    assert shares[4] == pytest.approx(4 / 5)
    assert shares[3] == pytest.approx(1 / 5)
    assert found.deploys.basis == "those of the last 5 commits"


def test_every_deploy_changes_the_repository_where_it_is_copied(app: Path) -> None:
    (app / "Dockerfile").write_text("FROM python\nCOPY . /app\n")
    (app / ".git").mkdir()
    (app / ".git/HEAD").write_text("x")
    (app / ".dockerignore").write_text("README\nnothing\n")
    assert {line.rebuilt for line in advise(app).before.lines} == {1.0}
    commits = cost(app, history=3).commits
    assert commits is not None
    assert {one.first for one in commits if not one.commit.recipe} == {2}


def test_a_directory_without_a_history_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    with pytest.raises(UsageError, match="is not in a git repository"):
        cost(tmp_path, history=5)
    git(tmp_path, "init", "-q")
    with pytest.raises(UsageError, match="has no commits"):
        cost(tmp_path, history=5)


def test_without_git_there_is_no_history(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingPart, match="git is not installed"):
        cost(app, history=5)


def test_a_shallow_repository_is_known_as_one(app: Path, tmp_path: Path) -> None:
    assert not is_shallow(app)
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{tmp_path}", "shallow")
    assert is_shallow(tmp_path / "shallow/app")
    assert len(read_commits(tree_of(tmp_path / "shallow/app"), 50)) < 7
