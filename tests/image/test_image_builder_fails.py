"""A builder that is killed, or finds no base or no space: an error, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from image_builder import a_directory, recipe, skip_unless_it_builds

from mrtuner.errors import MrTunerError
from mrtuner.image.builder import PROGRAMS, Builder, Program, short_directory

pytestmark = pytest.mark.usefixtures("asks")

SHELL = "FROM scratch\nCOPY busybox /bin/sh\n"


@pytest.fixture
def work() -> Iterator[Path]:
    """A short directory; the test is skipped where there is no builder or no registry."""
    with short_directory() as directory:
        skip_unless_it_builds("podman", directory)
        yield directory


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_base_that_is_not_here_is_named(tmp_path: Path, program: Program) -> None:
    root = a_directory(tmp_path, "FROM localhost/mrtuner-nowhere:1\nCOPY busybox /x\n")
    with short_directory() as work:
        skip_unless_it_builds(program, work)
        with (
            Builder(program, work / "b") as builder,
            pytest.raises(MrTunerError, match="mrtuner-nowhere") as failed,
        ):
            builder.build(recipe(root), "one")
    assert "pull base images first" in str(failed.value.hint)


def test_a_builder_that_is_killed_is_said_to_be(work: Path, tmp_path: Path) -> None:
    """The callback for its output kills it when the first line begins."""
    root = a_directory(tmp_path, f"{SHELL}RUN true\n")

    def kill(_line: str) -> None:
        for child in _children(os.getpid()):
            if "podman" in _command(child):
                os.kill(child, 9)

    with Builder("podman", work / "b") as builder:
        with pytest.raises(MrTunerError, match="it was ended by Killed"):
            builder.build(recipe(root), "one", say=kill)
        assert builder.build(recipe(root), "two").image
    assert not [line for line in mounts() if str(work) in line]


def _children(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(word) for word in text.split()]


def _command(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_text(errors="replace").partition("\0")[0]


def mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


@pytest.mark.parametrize("size", ["6m", "13m"])
@pytest.mark.usefixtures("work")
def test_a_full_disk_is_said_to_be(tmp_path: Path, size: str) -> None:
    """In 6 MB there is no room for the copies of both forms, in 13 MB none for an image."""
    for name in ("old", "new"):
        a_directory(tmp_path / name, f"{SHELL}COPY data /srv/\n", {"data": os.urandom(3_000_000)})
    (tmp_path / "new/data").write_bytes((tmp_path / "old/data").read_bytes())
    (tmp_path / "new/Dockerfile").write_text(f"FROM scratch\nCOPY data /srv/\n{SHELL[13:]}")
    program = f"{sys.executable} -c 'from mrtuner.cli import main; main()'"
    script = (
        f"mount -t tmpfs -o size={size} none /mnt && "  # in this process's own mount namespace
        f"TMPDIR=/mnt exec {program} image prove {tmp_path}/old {tmp_path}/new"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    if "mount:" in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 1, done.stderr
    assert "HINT: Free space, or set TMPDIR" in done.stderr, done.stderr
