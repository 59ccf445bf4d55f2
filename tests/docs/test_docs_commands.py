"""Commands in the documentation work, and print what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from docs_pages import ROOT, all_pages, commands, examples, name_of, needs_the_lab, not_run

from machine import needs
from rdstune.lab import Lab, seed

pytestmark = pytest.mark.timed

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet
    from conftest import NewCluster
    from docs_pages import Command

PAGES = [page for page in all_pages() if commands(page)]
OURS = ("mrtuner", "rdstune", "python", "grep", "mkdir", "echo", "printf")


def _case(page: Path) -> ParameterSet:
    patches = any("patch -p1" in command.words for command in commands(page))
    return pytest.param(page, id=name_of(page), marks=[needs("patch")] if patches else [])


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", [_case(page) for page in PAGES])
def test_every_command_of_a_page_works_as_shown(
    page: Path, tmp_path: Path, new_cluster: NewCluster
) -> None:
    """Each page has one directory and one server, or one lab, as its reader does."""
    listed = commands(page)
    environment = _environment(tmp_path)
    if any("examples/" in command.words for command in listed):
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
    with _lab(page) as variables:
        if not variables and any("$DSN" in command.words for command in listed):
            environment["DSN"] = new_cluster().dsn()
        for command in listed:
            _check(command, _run(command, tmp_path, environment | variables))


def _environment(directory: Path) -> dict[str, str]:
    """Our environment, without variables that point to the tester's own servers or accounts."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PG", "AWS_"))}
    here = str(Path(sys.executable).parent)
    return kept | {
        "PATH": os.pathsep.join([here, kept.get("PATH", "")]),
        "MRTUNER_STATE_DIR": str(directory / "state"),
        "LC_ALL": "C.UTF-8",
    }


@contextmanager
def _lab(page: Path) -> Iterator[dict[str, str]]:
    """The variables of `rdstune lab start --example`, for a page that says it needs that."""
    if not needs_the_lab(page):
        yield {}
        return
    servers = any("$DSN" in command.words for command in commands(page))
    with Lab(servers=servers) as lab:
        seed.plant(lab, seed.example())
        yield lab.environment | ({"DSN": lab.dsn("shop-staging")} if servers else {})


def _run(
    command: Command, directory: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command.words],
        cwd=directory,
        env=environment,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,  # a simulation takes minutes beside other test suites
        check=False,
    )


def _check(command: Command, done: subprocess.CompletedProcess[str]) -> None:
    """Each shown line must be printed (… is any text). Failure and a shown error go together."""
    where = f"{command.page}:{command.line}: {command.words}"
    fails = any(line.startswith("error:") for line in command.shown)
    assert (done.returncode != 0) == fails, f"{where}\n{done.stdout}"
    came = [line.rstrip() for line in done.stdout.splitlines()]
    for line in command.shown:
        shown = re.compile(".*".join(map(re.escape, re.split(" *… *", line))))
        assert any(map(shown.fullmatch, ["", *came])), f"{where}\nnot shown: {line}\n{done.stdout}"


def test_the_python_example_of_the_readme_runs(tmp_path: Path) -> None:
    (example,) = examples(all_pages()[0])
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("4GB\na quarter: ")
    assert "\nshared_buffers = 4GB\n" in done.stdout


@pytest.mark.parametrize("page", all_pages(), ids=name_of)
def test_every_python_example_is_python(page: Path) -> None:
    for example in examples(page):
        compile(example, name_of(page), "exec")


def test_every_command_is_one_that_we_can_run() -> None:
    for page in PAGES:
        for command in commands(page):
            assert command.words.split()[0] in OURS, f"{command.page}:{command.line}"


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    reasons = [reason for page in all_pages() for reason in not_run(page)]
    assert len(reasons) <= 8
    assert all(reason.startswith("takes ") for reason in reasons)
