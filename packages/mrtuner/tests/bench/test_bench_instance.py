"""Limits on a server, set for real where that is possible."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import machine
from machine import needs
from mrtuner.bench.server.instance import Volume, limits, require, volume
from mrtuner.errors import MissingPart
from mrtuner.units import Bytes, MiB

CGROUP = Path("/sys/fs/cgroup")
possible = needs("root", "cgroup v1 memory", "cgroup v1 blkio", "losetup", "mkfs.ext4", "mount")
#: Allocates the given number of MiB and says so.
EATER = "import sys; kept = bytearray(int(sys.argv[1]) << 20); print('eaten')"
#: Joins a group while it starts eaters of 16 and 128 MiB, then starts another outside.
STARTER = """
import subprocess, sys
from pathlib import Path
from mrtuner.bench.server.instance import inside

def eat(size):
    return subprocess.run([sys.executable, "-c", sys.argv[2], size], capture_output=True).returncode

with inside(Path(sys.argv[1])):
    small, large = eat("16"), eat("128")
print(small == 0, large == 0, eat("128") == 0)
"""


@possible
def test_a_program_started_inside_cannot_take_more_memory_than_the_limit() -> None:
    """The starter is a process of its own: memory that it needs meanwhile counts too."""
    with limits("test", Bytes(64 * MiB), None, None) as group:
        assert group is not None
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


# cgroup v2, as a tree of plain files: what we write there, not what the kernel does with it


@pytest.fixture
def unified(tmp_path: Path) -> Path:
    machine.require("root")
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    return tmp_path


def taken(group: Path | None) -> dict[str, str]:
    """Return what was written to a group's files, and delete them: they block its removal."""
    assert group is not None
    found = {}
    for file in group.iterdir():
        found[file.name] = file.read_text()
        file.unlink()
    return found


def test_memory_and_operations_are_one_group_of_cgroup_v2(unified: Path) -> None:
    """/dev/null is device 1:3."""
    disk = Volume(unified, Path("/dev/null"))
    with limits("small", Bytes(64 * MiB), disk, 3000, unified) as group:
        assert group is not None
        assert group.parent == unified
        assert taken(group) == {"memory.max": "67108864", "io.max": "1:3 riops=3000 wiops=3000"}
    assert not group.exists()
    assert (unified / "cgroup.subtree_control").read_text() == "+io"  # memory was on already


def test_on_cgroup_v2_the_device_is_capped_by_the_servers_group_alone(unified: Path) -> None:
    disk = Volume(unified, Path("/dev/null"))
    disk.throttle(3000, unified)
    disk.admit([1], unified)
    assert sorted(path.name for path in unified.iterdir()) == [
        "cgroup.controllers", "cgroup.subtree_control",
    ]  # fmt: skip
    with limits("none", None, disk, None, unified) as group:
        assert group is None
    with limits("memory", Bytes(64 * MiB), disk, None, unified) as group:
        assert taken(group) == {"memory.max": "67108864"}


def test_a_controller_that_is_not_there_is_named(unified: Path, tmp_path: Path) -> None:
    (unified / "cgroup.controllers").write_text("cpu memory\n")
    require(memory=True, volume=False, cgroup=unified)
    with pytest.raises(MissingPart, match="missing cgroup controllers: io"):
        require(memory=True, volume=True, cgroup=unified)
    with pytest.raises(MissingPart, match="missing cgroup controllers: memory, blkio"):
        require(memory=True, volume=True, cgroup=tmp_path / "none")
