"""The product's own builder and registry, for tests that run them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

import machine
from mrtuner.errors import MissingPart, MrTunerError
from mrtuner.image import builder as builders
from mrtuner.image import registry as registries
from mrtuner.image.builder import OURS, Builder, Program, Recipe

#: The image of `store_with`.
OUR_BASE = f"{OURS}base"


def a_directory(root: Path, recipe: str, files: Mapping[str, bytes] | None = None) -> Path:
    """A directory to build, with a shell in it."""
    root.mkdir(parents=True, exist_ok=True)
    for name, content in (files or {}).items():
        (root / name).write_bytes(content)
    shutil.copy(machine.program("busybox"), root / "busybox")
    (root / "Dockerfile").write_text(recipe)
    (root / ".dockerignore").write_text("Dockerfile\n.dockerignore\n")
    return root


def recipe(root: Path) -> Recipe:
    """The directory with its Dockerfile."""
    return Recipe(root, root / "Dockerfile")


@contextmanager
def store_with(base: Path, work: Path) -> Iterator[Path]:
    """A store with one image, OUR_BASE, for builds to use instead of the machine's own."""
    with Builder("podman", work) as builder:
        builder.build(recipe(base), "base")
        yield work / "root"


def skip_unless_it_builds(program: Program, work: Path) -> None:
    """Skip the test, with the reason, where this machine cannot build or has no registry."""
    machine.require(program, "docker-registry", "busybox")
    try:
        builders.require(program)
        registries.require()
    except MissingPart as missing:
        pytest.skip(missing.message)
    root = a_directory(work / "trial", "FROM scratch\nCOPY busybox /bin/sh\nRUN true\n")
    try:
        with Builder(program, work / "t") as builder:
            builder.build(recipe(root), "trial")
    except MrTunerError as failed:
        pytest.skip(f"{program} cannot build here: {failed.message}")
