"""A server's machine and its limits are recorded, and read back as they were."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import pytest
from history_data import MIDNIGHT, SECOND, batch, sample
from history_recorder import recorder, samples
from history_story import of_source

from mrtuner.facts import Fact, Missing
from mrtuner.history.analysis.period import period
from mrtuner.history.reading import open_history
from mrtuner.history.recorded.host_metrics import host_ceilings
from mrtuner.history.recorded.machine import facts, host_of, instance_of
from mrtuner.history.recording.machine import MACHINE, rows_of_host
from mrtuner.history.recording.program import Place
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Writer
from mrtuner.host import probe
from mrtuner.host.model import Host, HugePages, VirtualMemory
from mrtuner.host.tree import Tree
from mrtuner.inputs import Storage
from mrtuner.limits.ceilings import Resource
from mrtuner.limits.host_ceilings import watched_host
from mrtuner.limits.recorded_ceilings import CEILINGS, ceilings_of
from mrtuner.postgres.cluster import Cluster
from mrtuner.units import Bytes
from waiting import until

ELSEWHERE = Place(postmaster=None, data_directory=None)
SOMEWHERE = Host(
    memory=Fact(Bytes(16 * 2**30), "memory.max"),
    cpus=Fact(4, "cpu.max"),
    architecture=Fact("x86_64", "uname"),
    kernel=Fact("6.1.0-13-amd64", "uname"),
    storage=Fact(Storage.NVME, "nvme0n1"),
    filesystem=Fact("zfs", "mountinfo: /"),
    disk_size=Fact(Bytes(10**12), "statvfs"),
    disk_free=None,
    huge_pages=Fact(
        HugePages(size=Bytes(2**21), reserved=100, free=40, transparent="madvise", committed=3),
        "/proc/meminfo",
    ),
    swap=None,
    clock=Fact("tsc", "clocksource0"),
    vm=Fact(VirtualMemory(overcommit_memory=0, swappiness=60, ram=Bytes(2**35)), "/proc/sys/vm"),
    volume_iops=Fact(3000, "cgroup v2 io.max of /pg"),
    missing=(Missing("disk_free", "it is hidden", "--disk"), Missing("swap", "it is hidden")),
)


def stored(directory: Path, *machines: Host) -> Host | None:
    """Write these machines to a store, and return the last one as it is read back."""
    write(directory, *machines)
    with open_history(directory) as history:
        assert instance_of(facts(history, "db:5432")) is None
        return host_of(facts(history, "db:5432"))


def write(directory: Path, *machines: Host) -> None:
    """One each hour from midnight."""
    machine = built_in()["machine"]
    with Writer(directory, built_in().values()) as writer:
        for hour, one in enumerate(machines):
            rows = [of_source("machine", **row) for row in rows_of_host(one)]
            writer.commit([batch(sample(machine, 3600 * hour, *rows))])


def test_a_machine_is_read_as_it_was_recorded(tmp_path: Path) -> None:
    found = stored(tmp_path, SOMEWHERE)
    assert found is not None
    assert replace(found, missing=()) == replace(SOMEWHERE, missing=())
    assert set(found.missing) == set(SOMEWHERE.missing)


@pytest.mark.parametrize(("hour", "cpus"), [(-1, 4), (0.5, 4), (1.5, 2), (48, 2)])
def test_a_period_has_the_machine_of_its_end(tmp_path: Path, hour: float, cpus: int) -> None:
    """Four CPUs at midnight, two an hour later; an earlier period has the first machine."""
    write(tmp_path, SOMEWHERE, replace(SOMEWHERE, cpus=Fact(2, "cpu.max")))
    until = datetime.fromtimestamp(MIDNIGHT / SECOND + hour * 3600, UTC)
    with open_history(tmp_path) as history:
        found = host_of(facts(history, "db:5432", until=until))
    assert found is not None
    assert found.cpus == Fact(cpus, "cpu.max")


def test_what_is_no_longer_known_is_not_remembered(tmp_path: Path) -> None:
    smaller = replace(SOMEWHERE, cpus=Fact(2, "cpu.max"), clock=None)
    found = stored(tmp_path, SOMEWHERE, smaller)
    assert found is not None
    assert (found.cpus, found.clock) == (Fact(2, "cpu.max"), None)


def test_a_store_without_a_machine_has_none(tmp_path: Path) -> None:
    assert stored(tmp_path) is None


def test_a_machine_elsewhere_is_not_sampled() -> None:
    assert MACHINE.open(ELSEWHERE) is None
    assert CEILINGS.open(ELSEWHERE) is None


def test_the_recorder_records_the_machine_and_its_limits(embedded: Cluster, tmp_path: Path) -> None:
    """The recorded ones are those that `tune` and `limits` themselves find on this machine."""
    with recorder(tmp_path, embedded.dsn(), "--name", "here"):
        until(lambda: samples(tmp_path, "machine") and samples(tmp_path, "ceilings"))
        before = samples(tmp_path, "sessions")
        until(lambda: samples(tmp_path, "sessions") > before)  # the last sample ends the period
    pid = embedded.pid
    assert pid is not None
    expected = probe(pid=pid, data_directory=embedded.data)
    limits = watched_host(Tree(pid=pid), PurePosixPath(embedded.data)).ceilings
    with open_history(tmp_path) as history:
        found = host_of(facts(history, "here"))
        known = ceilings_of(host_ceilings(history, period(history, "here", since=60)))
    assert found is not None
    for name in (
        "memory", "cpus", "architecture", "kernel", "storage", "filesystem", "disk_size", "clock",
    ):  # fmt: skip
        assert getattr(found, name) == getattr(expected, name), name
    assert {(one.resource, one.part) for one in known} == {
        (one.resource, one.part) for one in limits
    }
    memory = next(one for one in known if one.resource is Resource.MEMORY)
    assert memory == next(one for one in limits if one.resource is Resource.MEMORY)


def test_a_limit_of_a_later_version_is_left_out() -> None:
    row = {"part": "server", "value": 1.0, "origin": "here", "note": None}
    assert ceilings_of([{"resource": "entropy", **row}]) == ()
    (known,) = ceilings_of([{"resource": "cpu", **row}])
    assert (known.resource, known.value, known.note) == (Resource.CPU, 1.0, "")
    assert ceilings_of([{"resource": "cpu", **row, "value": None}]) == ()
    with pytest.raises(KeyError):
        ceilings_of([row])
