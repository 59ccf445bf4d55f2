"""Advice for random Dockerfiles: every patch applies, costs what was said, and changes no file."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from image_pairs import Pair
from image_podman import Podman
from image_seed import BASE
from test_image_advise import applied
from test_image_advise_podman import builder, files

from machine import needs
from mrtuner.image.advice.advise import Advised, advise
from mrtuner.image.deploys import expected
from mrtuner.image.dockerfile import instructions
from mrtuner.image.model import model_of
from mrtuner.image.tree import tree_of

__all__ = ["builder"]  # a fixture

#: Lines that rules look for, beside those of `image_pairs`.
ROWS = [
    "RUN chown -R 7:8 /all", "RUN chown -R 7 /owned && echo 1 > /all/new", "RUN chgrp -R 9 /part",
    "RUN rm -rf /all/b.txt", "RUN rm -f /r1", "ARG GIT_SHA=1", "COPY src /src", "WORKDIR /all",
    "RUN echo $GIT_SHA > /sha", "COPY . /all/", "RUN mkdir -p /all/made",
    # Never chown the root directory: the builder has this machine's /dev in it.
    "WORKDIR /all\nRUN chown -R 7:8 .",
]  # fmt: skip


def a_tree(root: Path, seed: int, *, builds: bool) -> Advised:
    """A random Dockerfile with a few more lines in its last stage, and what is advised."""
    root.mkdir()
    Pair(root, seed)
    (root / "busybox").write_text("small")
    dice = random.Random(seed)
    text = (root / "Dockerfile").read_text()
    if builds:  # on a base with chown and the like
        text = text.replace("FROM scratch", f"FROM {BASE}").replace("busybox /bin/sh", "busybox /x")
    rows = text.splitlines()
    last = max(place for place, row in enumerate(rows) if row.startswith("FROM"))
    last += 1 if rows[last].startswith("FROM one") or rows[last].startswith("FROM two") else 3
    places = [one.line - 1 for one in instructions(text) if one.line > last]
    for place in sorted(dice.choices([*places, len(rows)], k=6), reverse=True):
        rows.insert(place, dice.choice(ROWS))
    rows[last:last] = dice.sample(
        ["COPY . /all/", "COPY --chown=1 src /owned/", "COPY etc /part/"], k=2
    )
    (root / "Dockerfile").write_text("\n".join(rows) + "\n")
    (root / "log").mkdir()
    (root / "log/x.log").write_text("x" * 3000)
    return advise(root)


@needs("busybox", "patch")
def test_every_patch_applies_and_costs_what_was_said(tmp_path: Path) -> None:
    pieces = 0
    for seed in range(20):
        found = a_tree(tmp_path / str(seed), seed, builds=False)
        patches = [*(one.patch for one in found.advice), found.together.patch]
        for number, patch in enumerate(filter(None, patches)):
            root = tmp_path / f"{seed}.{number}"
            shutil.copytree(tmp_path / str(seed), root)
            applied(root, patch)
            after = expected(model_of(tree_of(root)), found.deploys)
            assert after.sent <= found.before.sent
            pieces += 1
        if found.together.patch:
            assert after == found.together.after, seed
            assert advise(root).together.applied == (), seed
    assert pieces > 40


@pytest.mark.slow
@pytest.mark.timeout(3600)
@needs("busybox", "patch")
def test_no_patch_for_a_random_dockerfile_changes_a_file(builder: Podman, tmp_path: Path) -> None:
    """Only logs, Dockerfile and .dockerignore, left out on purpose, may be missing."""
    tried = 0
    for seed in range(10):
        root = tmp_path / str(seed)
        found = a_tree(root, seed, builds=True)
        if not found.together.patch or builder.build(root).returncode:
            continue  # a build fails at a chown of what no line copied
        before = files(builder, root)
        applied(root, found.together.patch)
        after = files(builder, root)
        gone = {name for name in before.keys() - after.keys() if "log" not in name}
        where = (seed, found.together.applied, gone)
        assert not gone or {Path(name).name for name in gone} <= {"Dockerfile", ".dockerignore"}, (
            where
        )
        assert after.items() <= before.items(), where
        tried += 1
    assert tried > 5
