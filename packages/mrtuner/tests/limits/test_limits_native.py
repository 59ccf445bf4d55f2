"""A real server pushed against a real limit: found within 5 per cent, named or not.

The limit is set on a whole loop device, in the root's own group: one on the server's group alone
lets the kernel's write-back escape.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import mrtuner
from machine import needs
from mrtuner.bench.server.instance import Volume, volume
from mrtuner.limits import Limits, Resource
from mrtuner.limits.assess import on_host
from mrtuner.limits.metrics.watch import watch
from mrtuner.limits.sentences import THROUGHPUTS
from mrtuner.postgres.cluster import Cluster
from mrtuner.units import Bytes, MiB
from servers import binaries

CGROUP = Path("/sys/fs/cgroup/blkio")
possible = needs(
    "root", "cgroup v1 blkio", "the root group of blkio", "losetup", "mkfs.ext4", "mount"
)
pytestmark = [pytest.mark.quiet, possible]
#: Direct I/O bypasses the page cache; every machine manages a thousand reads a second.
SETTINGS = {"debug_io_direct": "data", "shared_buffers": "16MB", "fsync": "off"}
CALM, PUSHED = 40, 80  # seconds


@pytest.fixture(scope="module")
def place() -> Iterator[Volume]:
    with volume(Bytes(1024 * MiB)) as made:
        yield made


@pytest.fixture(scope="module")
def server(place: Volume) -> Iterator[Cluster]:
    """A server with 300 MB of pgbench's rows, about twenty times its shared_buffers."""
    cluster = Cluster.create(binaries(18), place.place / "server", SETTINGS)
    with cluster:
        pgbench(cluster, "-i", "-q", "-s", "20")
        yield cluster


def pgbench(cluster: Cluster, *arguments: str) -> None:
    program = cluster.binaries.directory / "pgbench"
    subprocess.run([program, *arguments, cluster.dsn()], check=True, capture_output=True)


@contextmanager
def limited(place: Volume, kind: str, value: int) -> Iterator[None]:
    """Limit the whole device inside the block."""
    number = place.device.stat().st_rdev
    rule, file = f"{os.major(number)}:{os.minor(number)}", CGROUP / f"blkio.throttle.{kind}_device"
    file.write_text(f"{rule} {value}")
    try:
        yield
    finally:
        file.write_text(f"{rule} 0")


def test_tune_knows_what_the_limit_lets_the_volume_do(place: Volume, server: Cluster) -> None:
    with limited(place, "write_iops", 3000), limited(place, "read_bps", 125_000_000):
        given = {item.name: item for item in mrtuner.tune(server.dsn()).given}
    assert given["iops"].value == "3000"
    assert given["iops"].source.startswith("cgroup v1 blkio.throttle.write_iops_device of /")
    assert given["throughput"].value == "119 MB"


def pushed(cluster: Cluster) -> Limits:
    """Watch a calm phase, then one in which eight clients read as fast as they can."""
    calm = ["-S", "-c", "2", "-R", "100", "-T", str(CALM)]
    hard = ["-S", "-c", "8", "-T", str(PUSHED)]
    script = f"""{cluster.binaries.directory}/pgbench {" ".join(calm)} '{cluster.dsn()}'
    {cluster.binaries.directory}/pgbench {" ".join(hard)} '{cluster.dsn()}'"""
    load = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        return watch(cluster.dsn(), CALM + PUSHED)
    finally:
        load.communicate()


def blind(found: Limits) -> Limits:
    """Judge the same metrics as if nobody had declared a limit."""
    return on_host(found.series, (), name=None, storage=None)


@pytest.mark.parametrize(
    ("kind", "value", "resource"),
    [
        ("read_iops", 800, Resource.READ_IOPS),
        ("read_bps", 8 * MiB, Resource.READ_THROUGHPUT),
    ],
)
def test_the_limit_is_found_within_5_per_cent_declared_or_not(
    place: Volume, server: Cluster, kind: str, value: int, resource: Resource
) -> None:
    with limited(place, kind, value):
        found = pushed(server)
    assert found.storage == place.device.name
    (one,) = [one for one in found.pegged if one.resource is resource]
    assert one.plateau.level == pytest.approx(value, rel=0.05)
    assert one.ceiling is not None
    assert one.ceiling.value == value
    assert one.confirmed
    undeclared = blind(found).pegged
    assert undeclared
    for each in undeclared:  # all reads are 8 kB, so bytes are as flat as operations
        operations = each.plateau.level / (8192 if each.resource in THROUGHPUTS else 1)
        assert each.ceiling is None
        assert operations == pytest.approx(value if kind == "read_iops" else value / 8192, rel=0.05)
