"""What cannot be written is said with the step that helps: on the server, and in its files."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import NewCluster

from machine import require
from mrtuner.change.journal import Journal
from mrtuner.change.settings.apply import Wanted, address_of, apply, plan, undo
from mrtuner.change.settings.stopped import stopped_change, undo_stopped
from mrtuner.errors import ApplyError, Refused
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.read_server import read
from mrtuner.postgres.server_user import scratch_directory
from servers import binaries, sql

pytestmark = pytest.mark.timed


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "state") as journal:
        yield journal


@pytest.fixture
def on_a_small_disk() -> Iterator[Cluster]:
    """A server on a volume of 200 MB."""
    require("root")
    place = scratch_directory()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200m,mode=755", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let us mount a filesystem")
    cluster = Cluster.create(binaries(18), place / "cluster", {"fsync": "off"})
    cluster.start()
    yield cluster
    cluster.remove()
    subprocess.run(["umount", "-l", str(place)], check=True)
    place.rmdir()


def fill(cluster: Cluster) -> None:
    disk = cluster.directory.parent
    with (disk / "ballast").open("wb", buffering=0) as file:
        while free := shutil.disk_usage(disk).free:
            file.write(bytes(free))


def change(cluster: Cluster, journal: Journal) -> None:
    with connect(cluster.dsn()) as conn:
        made = plan(read(conn), [Wanted(name="work_mem", value="8MB")])
    apply(cluster.dsn(), made, journal)


def test_the_servers_full_disk_is_no_lost_connection(
    on_a_small_disk: Cluster, journal: Journal
) -> None:
    sql(on_a_small_disk.dsn(), "SELECT 1")  # the first session writes a file of its own
    fill(on_a_small_disk)
    with pytest.raises(ApplyError, match=r"could not write work_mem: .*as they were") as full:
        change(on_a_small_disk, journal)
    assert full.value.hint == "Free space on its volume, then run again."


def test_the_full_disk_of_a_stopped_server_is_said(
    on_a_small_disk: Cluster, journal: Journal
) -> None:
    dsn = on_a_small_disk.dsn()
    change(on_a_small_disk, journal)
    on_a_small_disk.stop()
    fill(on_a_small_disk)
    done = stopped_change(journal, address_of(dsn), None)
    assert done is not None
    with pytest.raises(ApplyError, match="No space left on device") as full:
        undo_stopped(dsn, journal, done)
    assert full.value.hint == "Free space on its volume, then run again."


def test_a_data_directory_that_the_server_may_not_write_is_said(
    new_cluster: NewCluster, journal: Journal
) -> None:
    cluster = new_cluster()
    cluster.data.chmod(0o500)
    try:
        with pytest.raises(ApplyError, match=r"server refused .*Permission denied") as refused:
            change(cluster, journal)
    finally:
        cluster.data.chmod(0o700)
    assert refused.value.hint == (
        "Let the server's user write to its data directory, and read and write "
        "postgresql.auto.conf."
    )


def test_undo_does_not_recommend_an_option_that_it_lacks(
    new_cluster: NewCluster, journal: Journal
) -> None:
    cluster = new_cluster()
    change(cluster, journal)
    cluster.configure({"allow_alter_system": "off"})
    sql(cluster.dsn(), "SELECT pg_reload_conf()", "SELECT pg_sleep(0.3)")
    with pytest.raises(Refused, match="ALTER SYSTEM is switched off") as refused:
        undo(cluster.dsn(), journal)
    assert refused.value.hint == (
        "Set allow_alter_system = on and reload, or apply with a file that it includes: "
        "--conf-dir DIR."
    )
