"""Control groups of version 1, made for a test."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

V1 = Path("/sys/fs/cgroup")


@contextmanager
def real_group(controller: str, **limits: str) -> Iterator[Path]:
    """A version 1 cgroup below our own, removed when the block ends."""
    own = re.search(
        rf"^\d+:{controller}:(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE
    )
    if own is None:
        pytest.skip(f"no version 1 hierarchy of {controller} here")
    folder = V1 / controller / own[1].strip("/") / f"mrtuner-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"may not create a cgroup here: {error.strerror}")
    try:
        for name, text in limits.items():
            set_or_skip(folder / name.replace("__", "."), text)
        yield folder
    finally:
        folder.rmdir()


def set_or_skip(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        pytest.skip(f"may not set {file.name} here: {error.strerror}")
