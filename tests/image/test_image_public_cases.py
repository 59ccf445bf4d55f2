"""Public cases that other tools count wrongly: built and pushed, they save what is advised."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from image_builder import a_directory, recipe, skip_unless_it_builds
from test_image_advise import applied

from mrtuner.image.advice.advise import advise
from mrtuner.image.builder import Builder, short_directory
from mrtuner.image.registry import Registry
from mrtuner.image.stored import read_image

pytestmark = pytest.mark.usefixtures("asks")

SHELL = "FROM scratch\nCOPY busybox /bin/sh\n"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("case", "rule", "text"),
    [
        # An installed tree of 970 MB below a chown: one of the two copies is waste, not both.
        ("dive#684", "copy-chown", "COPY app /app\nRUN chown -R 7:8 /app\n"),
        # A file that one line makes and removes ended the search for duplicates: none were found.
        (
            "dive#715", "copied-twice",
            "COPY app /app\nRUN touch /x && rm /x\nCOPY app/data.bin /app/data.bin\n",
        ),
    ],
)  # fmt: skip
def test_the_image_loses_as_many_bytes_as_the_advice_says(
    tmp_path: Path, case: str, rule: str, text: str
) -> None:
    """With 970 kB, a thousandth of the first case; what is saved is the second copy."""
    root = a_directory(tmp_path / case.replace("#", "-"), SHELL + text)
    (root / "app").mkdir()
    (root / "app/data.bin").write_bytes(os.urandom(970_000))
    (number,) = [one.number for one in advise(root).advice if one.rule == rule]
    found = advise(root, only=[number])
    (one,) = [one for one in found.advice if one.number == number]
    before = pushed(root)
    applied(root, found.together.patch)
    assert one.saved.image.bytes == pytest.approx(before - pushed(root), rel=0.01)
    assert one.saved.image.bytes == pytest.approx(970_000, rel=0.01)


def pushed(root: Path) -> int:
    """Build and push the image; return its size in the registry [bytes]."""
    with short_directory() as work:
        skip_unless_it_builds("podman", work)
        with Registry(work / "r") as registry, Builder("podman", work / "b") as builder:
            builder.build(recipe(root), "one")
            builder.push("one", f"{registry.address}/app:one")
            return read_image(f"{registry.address}/app:one").size
