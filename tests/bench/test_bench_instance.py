"""Limits on a server, set for real where that is possible."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mrtuner.bench.instance import memory_limit, volume
from mrtuner.units import Bytes, MiB

CGROUP = Path("/sys/fs/cgroup")
possible = pytest.mark.skipif(
    os.geteuid() != 0
    or not (CGROUP / "memory").is_dir()
    or not (CGROUP / "blkio").is_dir()
    or not all(map(shutil.which, ("losetup", "mkfs.ext4", "mount"))),
    reason="limits need root, cgroup v1 and loop devices",
)
#: Takes as many MiB as told and says so.
EATER = "import sys; kept = bytearray(int(sys.argv[1]) << 20); print('eaten')"
#: Joins a group while it starts eaters of 16 and 128 MiB, then starts another outside.
STARTER = """
import subprocess, sys
from pathlib import Path
from mrtuner.bench.instance import inside

def eat(size):
    return subprocess.run([sys.executable, "-c", sys.argv[2], size], capture_output=True).returncode

with inside(Path(sys.argv[1])):
    small, large = eat("16"), eat("128")
print(small == 0, large == 0, eat("128") == 0)
"""


@possible
def test_a_program_started_inside_cannot_take_more_memory_than_the_limit() -> None:
    """The starter is a process of its own: what it needs meanwhile counts in the group too."""
    with memory_limit("test", Bytes(64 * MiB)) as group:
        done = subprocess.run(
            [sys.executable, "-c", STARTER, str(group), EATER],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        assert done.stdout == "True False True\n"
    assert not group.exists()


@possible
def test_a_volume_is_a_file_system_whose_operations_can_be_capped() -> None:
    throttle = CGROUP / "blkio/blkio.throttle.write_iops_device"
    try:
        opened = volume(Bytes(64 * MiB))
        with opened as made:
            (made.place / "file").write_text("data")
            number = made.device.stat().st_rdev
            name = f"{os.major(number)}:{os.minor(number)}"
            made.throttle(1000)
            assert f"{name} 1000" in throttle.read_text()
            assert (made.place / "file").stat().st_dev == number
    except Exception as error:
        if "losetup" in str(error):
            pytest.skip(f"no loop device to be had: {error}")
        raise
    assert f"{name} 1000" not in throttle.read_text()
    assert not made.place.exists()
