"""Limits on a server, set for real where that is possible."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mrtuner.bench.instance import inside, memory_limit, volume
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


def eat(size: int) -> int:
    done = subprocess.run(
        [sys.executable, "-c", EATER, str(size)], check=False, capture_output=True
    )
    return done.returncode


@possible
def test_a_program_started_inside_cannot_take_more_memory_than_the_limit() -> None:
    with memory_limit("test", Bytes(64 * MiB)) as group:
        with inside(group):
            assert eat(16) == 0
            assert eat(128) != 0
        assert eat(128) == 0
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
