"""`make bench-image-seed` at a small scale, so that it keeps working."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from image_builder import skip_unless_it_builds

from machine import require
from mrtuner.image.builder import short_directory

pytestmark = pytest.mark.usefixtures("asks")

ROOT = Path(__file__).parents[2]
UNIT = 4_096
RATE = 4e6 / 8  # of the network [bytes/s]
WRITE_TEXT = (
    "import random, sys, seed_files; sys.stdout.buffer.write(seed_files._text(random.Random(1)))"
)


@pytest.fixture(scope="module")
def three_layers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The form with an ignore file, which is measured first."""
    (found,) = benched(tmp_path_factory.mktemp("seed"), "--forms", "1")
    return found


def benched(place: Path, *words: str) -> list[dict[str, Any]]:
    """The forms that the benchmark writes for a seed whose megabyte is 4 kB."""
    require("tc")
    with short_directory() as work:
        skip_unless_it_builds("podman", work)
    done = subprocess.run(
        [
            sys.executable, ROOT / "bench/seed_image.py", "--unit", str(UNIT), "--rates", "4Mbit/s",
            "--write", place, *words,
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads((place / "image-seed.json").read_text())["forms"]
    return found


def test_the_seeds_three_layers_are_built_and_chown_doubles_the_source(
    three_layers: dict[str, Any],
) -> None:
    """By the field notes, in megabytes: 72 of source, 28 of gems with the source again, 15."""
    made = [
        (one["by"].split()[0], one["archive"] / UNIT) for one in three_layers["changed"]["layers"]
    ]
    assert [by for by, _ in made] == ["ADD", "bundle", "rake"]
    # Each small file has a header and is filled up to 512 bytes.
    assert [size for _, size in made] == pytest.approx([72, 100, 15], rel=0.25)
    again = [one["again"] / UNIT for one in three_layers["changed"]["layers"]]
    assert again == pytest.approx([0, 72, 0], rel=0.1)


def test_the_sizes_of_the_last_build_tell_what_is_pushed(three_layers: dict[str, Any]) -> None:
    known, came = three_layers["known"], three_layers["changed"]
    assert known["unknown"] == 0
    assert known["rebuilt"] == pytest.approx(came["built"], rel=0.01)
    assert known["pushed"] == pytest.approx(came["pushed"], rel=0.02)


def test_a_slower_line_takes_the_bytes_and_their_headers(three_layers: dict[str, Any]) -> None:
    """A segment has at most 1,448 bytes of data in a frame of 1,514; a burst passes at once."""
    (push,) = three_layers["pushes"]
    assert push["seconds"] > (push["received"] * 1514 / 1448 - 32_000) / RATE
    assert push["received"] == pytest.approx(three_layers["changed"]["pushed"], rel=0.01)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_form_pushes_less_and_is_the_same_image_but_the_seeds_end(tmp_path: Path) -> None:
    found = {one["name"]: one for one in benched(tmp_path)}
    names = (
        "original", "with an ignore file", "the 2014 solution", "as advised",
        "with fixed timestamps",
    )  # fmt: skip
    pushed = [found[name]["changed"]["pushed"] for name in names]
    assert pushed == sorted(pushed, reverse=True)
    assert pushed[0] > 2 * pushed[1] > 20 * pushed[-1]
    end = found.pop("the 2014 solution")
    assert set(end["differs"]) == {"owner", "Cmd", "User"}
    # 72 of source, 28 of gems, 15 of assets.
    assert end["start"]["written"] / UNIT == pytest.approx(115, rel=0.25)
    assert not any(one["differs"] for one in found.values())


def test_the_text_is_compressible_like_a_program() -> None:
    """Within an eighth of MrTuner's own source."""
    done = subprocess.run(
        [sys.executable, "-c", WRITE_TEXT], cwd=ROOT / "bench", check=True, capture_output=True
    )
    own = b"".join(path.read_bytes() for path in sorted((ROOT / "src/mrtuner").rglob("*.py")))
    assert ratio(done.stdout) == pytest.approx(ratio(own), rel=0.125)


def ratio(text: bytes) -> float:
    return len(text) / len(gzip.compress(text, 6))
