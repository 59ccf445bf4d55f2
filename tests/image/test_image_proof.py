"""Two forms built and pushed for real: what the registry received, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from image_podman import BUSYBOX, Podman

from mrtuner.errors import MissingPart, MrTunerError, Refused
from mrtuner.image import builder as builders
from mrtuner.image import registry as registries
from mrtuner.image.builder import Builder, Program, Recipe, short_directory
from mrtuner.image.proof.run import Proof, Task, prove
from mrtuner.image.registry import Registry
from mrtuner.image.stored import read_image
from mrtuner.stats.comparison import Verdict

IGNORED = "Dockerfile\n.dockerignore\n"
SLOPPY = "FROM scratch\nCOPY busybox /bin/sh\nCOPY . /srv/\nRUN touch /done\n"
TIDY = (
    "FROM scratch\nCOPY busybox /bin/sh\nRUN touch /done\nCOPY data /srv/data\nCOPY . /srv/\n"
)


@pytest.fixture
def work(podman: Podman) -> Iterator[Path]:
    """A short directory; the test is skipped where there is no builder or no registry."""
    try:
        registries.require()
    except MissingPart as missing:
        pytest.skip(missing.message)
    with short_directory() as directory:
        yield directory


def a_form(root: Path, recipe: str, data: bytes) -> Path:
    (root / "data").mkdir(parents=True)
    (root / "data/big").write_bytes(data)
    shutil.copy(BUSYBOX, root / "busybox")
    (root / "main.py").write_text("print()\n")
    (root / "Dockerfile").write_text(recipe)
    (root / ".dockerignore").write_text(IGNORED)
    return root


@pytest.fixture
def task(work: Path, tmp_path: Path) -> Task:
    data = os.urandom(300_000)  # which no compressor makes smaller
    old = a_form(tmp_path / "old", SLOPPY, data)
    new = a_form(tmp_path / "new", TIDY, data)
    return Task(old=old, new=new, work=work, changes=1, seed=1)


def of_main(found: Proof) -> tuple[int, int]:
    (one,) = [one for one in found.replayed if one.name.startswith("main.py")]
    return one.before.pushed, one.after.pushed


def test_a_change_of_code_pushes_what_stands_behind_it(task: Task) -> None:
    """Edits of busybox, data/big and main.py: code is one line of the tidy form, all data of the
    sloppy one, whose `COPY . /srv/` has busybox too."""
    seen: list[tuple[float, float]] = []
    found = prove(task, lambda done, of, _text: seen.append((done, of)))
    before, after = of_main(found)
    busybox = len(_gzipped(BUSYBOX))
    assert before == pytest.approx(300_000 + busybox, rel=0.05)
    assert after == pytest.approx(300_000 + busybox, rel=0.05)  # COPY . copies data once more
    assert found.noise == {}
    assert found.left_out == ()
    assert seen[-1][0] < seen[-1][1]
    assert not any(task.work.glob("*i/root"))  # what the builders kept is gone


def _gzipped(path: Path) -> bytes:
    return subprocess.run(["gzip", "-c", path], check=True, capture_output=True).stdout
