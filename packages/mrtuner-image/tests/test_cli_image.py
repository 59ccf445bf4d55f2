"""`mrtuner image`: what it prints, how it ends, and that its JSON satisfies its schema."""

from __future__ import annotations

import json
import os
import random
from functools import partial
from pathlib import Path

import pytest

import command_line
from json_schemas import assert_valid

RECIPE = """FROM python:3.13
ARG GIT_SHA
COPY . /srv/app
RUN pip install -r /srv/app/requirements.txt
RUN chown -R app /srv/app
"""


run = partial(command_line.run, "image", "cost")


@pytest.fixture
def app(tmp_path: Path) -> Path:
    for name in ("main.py", "requirements.txt", "log/app.log", ".git/HEAD", ".env"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x" * 2000)
    (tmp_path / "Dockerfile").write_text(RECIPE)
    return tmp_path


def test_help_leads_with_examples() -> None:
    shown = run("--help").output
    assert "  mrtuner image cost" in shown
    assert shown.index("Examples:") < shown.index("Options:")


def test_the_answer_comes_first(app: Path) -> None:
    """By hand: 5 files of a header and 4 blocks, the Dockerfile of 2, 2 directories, the end."""
    done = run(app)
    assert done.exit_code == 0, done.output
    size = 5 * 5 * 512 + 2 * 512 + 2 * 512 + 2 * 512
    shown = done.output.splitlines()
    assert shown[0].startswith(
        f"One changed file of code (main.py) builds 3 of 4 lines again, from line 3: "
        f"at least {2 * size / 1024 - 1:.3g} kB rebuilt, "  # chown copies all but the archive's end
    )
    assert "Not in the ignore file, but should be:" in shown
    assert "Judging by the names, .env should not leave this machine." in shown
    assert any(line.split()[:2] == ["dependencies", "1"] for line in shown)


def test_the_document_satisfies_its_schema(app: Path) -> None:
    done = run(app, "--json", "--build-arg", "GIT_SHA=1")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert_valid(told, "mrtuner.image.cost/1")
    assert [one["what"] for one in told["context"]["missed"]] == [
        "secret", "version control", "log",  # the last two are equal in size
    ]  # fmt: skip
    assert {line["line"]: line["bytes"] for line in told["lines"]}[4] is None


def test_names_that_are_no_utf8_can_be_shown(app: Path) -> None:
    (app / os.fsdecode(b"odd\xff\x1b[2J.py")).touch()
    assert run(app).exit_code == 0
    (odd,) = [
        one
        for one in json.loads(run(app, "--json").output)["context"]["directories"]
        if one["path"] == "."
    ]
    assert odd["files"] == 5
    assert "\x1b[2J" not in run(app).output


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ("FROM scratch\nNONSENSE x\n", "line 2 of the Dockerfile: unknown instruction NONSENSE"),
        ("FROM scratch\nCOPY nothing /\n", "line 2 of the Dockerfile copies nothing"),
        ("FROM scratch\nRUN <<EOF\n", "line 2 of the Dockerfile: a heredoc"),
    ],
)
def test_errors_name_the_line_and_what_to_do(app: Path, recipe: str, said: str) -> None:
    (app / "Dockerfile").write_text(recipe)
    done = run(app)
    assert done.exit_code == 2
    assert f"error: {said}" in done.output
    assert "HINT: " in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--file", "None"], "there is no None in"),
        (["--build-arg", "A"], "--build-arg A has no value"),
    ],
)
def test_options_that_cannot_be_used_are_refused(app: Path, words: list[str], said: str) -> None:
    done = run(app, *words)
    assert done.exit_code == 2
    assert said in done.output


def test_a_bad_ignore_file_is_refused(app: Path) -> None:
    (app / ".dockerignore").write_text("ok\n[\n")
    done = run(app)
    assert done.exit_code == 2
    assert "error: syntax error in pattern [ of the ignore file" in done.output


def test_another_dockerfile_has_an_ignore_file_of_its_own(app: Path) -> None:
    (app / "Two").write_text("FROM scratch\nCOPY main.py /\n")
    (app / "Two.dockerignore").write_text("log\n.git\n.env\n")
    told = json.loads(run(app, "--file", "Two", "--json").output)
    assert told["context"]["ignore_file"].endswith("Two.dockerignore")
    assert told["context"]["missed"] == []


def test_pushed_bytes_have_a_range(app: Path) -> None:
    """10 % before anything is built; no upper end if a part is unknown."""
    (app / "main.py").write_bytes(random.Random(1).randbytes(100_000))
    (app / "Dockerfile").write_text("FROM debian\nCOPY main.py /\n")
    told = json.loads(run(app, "--json").output)
    assert told["pushed_within"] == 0.1
    assert told["changes"][0]["pushed"]["bytes"] == pytest.approx(100_300, abs=200)
    said = " ".join(run(app).output.split())
    assert "10 % more or less: 97.9 kB is 88.1 kB to 108 kB." in said
    (app / "Dockerfile").write_text("FROM debian\nCOPY main.py /\nRUN true\n")
    assert "at least 97.9 kB is at least 88.1 kB." in " ".join(run(app).output.split())


def test_another_builder_takes_what_podman_does_not(app: Path) -> None:
    """BuildKit takes heredocs; its rules are marked as untested, and it sends only what changed."""
    (app / "Dockerfile").write_text("FROM debian\nRUN <<EOF\ntrue\nEOF\nCOPY --link main.py /\n")
    assert "BuildKit takes it: --builder buildkit" in " ".join(run(app).output.split())
    told = json.loads(run(app, "--builder", "buildkit", "--json").output)
    assert told["builder"] == "BuildKit, from its documentation, not tested"
    code = next(one for one in told["changes"] if one["example"] == "main.py")
    size = (app / "main.py").stat().st_size
    assert code["sent"] == 512 + -(-size // 512) * 512
    assert run(app, "--builder", "buildah").exit_code == 2
    assert "BuildKit receives the files that lines copy" in run(app, "--builder", "buildkit").output
