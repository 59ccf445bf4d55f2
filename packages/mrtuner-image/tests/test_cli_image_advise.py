"""`mrtuner image advise` and `cost --history`: what they print, and the files they write."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest

import command_line
from json_schemas import assert_valid
from machine import needs
from mrtuner.units import pretty_bytes

RECIPE = """FROM python:3.13
ARG GIT_SHA
RUN apt-get update && apt-get install -y gcc
COPY . /srv/app
RUN pip install -r /srv/app/requirements.txt
RUN chown -R app:app /srv/app
"""


run = partial(command_line.run, "image")


@pytest.fixture
def app(tmp_path: Path) -> Path:
    root = tmp_path / "app"
    for name in ("main.py", "requirements.txt", "log/app.log", ".env"):
        path = root / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("x" * 2000)
    (root / "Dockerfile").write_text(RECIPE)
    return root


def test_help_leads_with_examples() -> None:
    shown = run("advise", "--help").output
    assert shown.index("Examples:") < shown.index("Options:")


def test_the_sum_comes_first_and_every_piece_has_its_risk(app: Path) -> None:
    done = run("advise", app)
    assert done.exit_code == 0, done.output
    shown = done.output.splitlines()
    size = 4 * 5 * 512 + 2 * 512 + 512 + 2 * 512  # four files, the Dockerfile, log, the end
    assert shown[0].startswith(f"A deploy sends {pretty_bytes(size)} and pushes ")
    assert "together it sends" in shown[1]
    assert shown[3].split() == ["no.", "rule", "sent", "rebuilt", "pushed", "image"]
    assert shown[4].split()[:2] == ["1", "secrets"]
    assert "Every deploy is assumed to pass a new GIT_SHA." in shown
    assert " ".join(done.output.split()).count("Risk: ") == done.output.count("Risk:") >= 4


def test_the_document_satisfies_its_schema(app: Path) -> None:
    told = json.loads(run("advise", app, "--json").output)
    assert_valid(told, "mrtuner.image.advise/1")
    assert [one["number"] for one in told["advice"]] == list(range(1, len(told["advice"]) + 1))
    caches = [one for one in told["advice"] if one["rule"] == "package-caches"]
    assert {one["saved"]["image"]["precision"] for one in caches} == {"at least"}
    assert told["arguments"] == ["GIT_SHA"]


@needs("patch")
def test_the_patch_is_written_and_applies(app: Path, tmp_path: Path) -> None:
    patch = tmp_path / "image.patch"
    done = run("advise", app, "--patch", patch)
    assert done.exit_code == 0, done.output
    assert "written: " in done.output
    subprocess.run(["patch", "-p1"], cwd=app, input=patch.read_bytes(), check=True)
    again = run("advise", app, "-o", tmp_path / "none.patch")
    assert "No rule finds anything that would make it cheaper." in again.output
    assert not (tmp_path / "none.patch").exists()


def test_chosen_numbers_alone_are_combined(app: Path) -> None:
    told = json.loads(run("advise", app, "--only", "1", "--json").output)
    assert told["together"]["titles"] == [told["advice"][0]["title"]]
    done = run("advise", app, "--only", "99")
    assert done.exit_code == 2
    assert "error: there is no advice with number 99" in done.output


def test_the_page_has_the_picture_and_the_patches(app: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = run("advise", app, "--html", tmp_path / "advice.html")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "advice.html").read_text()
    assert "<svg" in page
    assert "+ARG GIT_SHA" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_a_page_that_cannot_be_written_is_refused_at_once(app: Path, tmp_path: Path) -> None:
    done = run("advise", app, "--html", tmp_path / "none/advice.html")
    assert done.exit_code == 2
    assert "there is no directory" in done.output


def git(root: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


def test_commits_are_replayed_by_line(app: Path) -> None:
    git(app, "init", "-q")
    git(app, "add", "-A")
    git(app, "commit", "-q", "-m", "all")
    (app / "main.py").write_text("changed")
    git(app, "commit", "-qam", "code")
    shown = run("cost", app, "--history", "5").output
    assert "The last 2 commits, replayed; 1 changed the Dockerfile or its ignore file" in shown
    assert any(
        line.split()[:3] == ["4", "code", "1"] and line.endswith("code")
        for line in shown.splitlines()
    )
    told = json.loads(run("cost", app, "--history", "5", "--json").output)
    assert_valid(told, "mrtuner.image.cost/1")
    assert [(one["subject"], one["first_line"]) for one in told["commits"]] == [
        ("code", 4), ("all", None),
    ]  # fmt: skip
    assert "the last 1 commits" not in run("advise", app, "--history", "5").output


def test_a_shallow_repository_is_told(app: Path, tmp_path: Path) -> None:
    git(app, "init", "-q")
    git(app, "add", "-A")
    git(app, "commit", "-q", "-m", "one")
    git(app, "commit", "-q", "--allow-empty", "-m", "two")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{app}", "shallow")
    assert (
        "warning: the repository is shallow"
        in run("cost", tmp_path / "shallow", "--history", "5").output
    )


def test_a_directory_in_no_repository_has_no_history(app: Path) -> None:
    done = run("advise", app, "--history", "5")
    assert done.exit_code == 2
    assert "is not in a git repository" in done.output
