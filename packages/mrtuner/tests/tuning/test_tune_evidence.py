"""What a value rests on: rows of the measured results, facts that are known, and their limits."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import pytest

import mrtuner
from mrtuner.tuning import engine  # noqa: F401 - registers the rules
from mrtuner.tuning.measured import MEASUREMENTS, Measurement
from mrtuner.tuning.pgtune import measured_against
from mrtuner.tuning.verdict import RULES, Basis
from mrtuner.units import pretty_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from mrtuner.tuning import Tuning

MIB, GIB = 2**20, 2**30

# --- measured: a row of the page shows it


@pytest.fixture(scope="module")
def rows(pytestconfig: pytest.Config) -> dict[str, list[str]]:
    """The cells of the table of rows, by anchor."""
    page: Path = pytestconfig.rootpath / "docs/measured-results.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    found = {}
    for line in lines:
        if match := re.match(r'\| <span id="([a-z-]+)">', line):
            found[match[1]] = [cell.strip() for cell in line.strip("|").split("|")]
    return found


def test_every_row_of_the_page_is_one_that_rules_point_to(rows: dict[str, list[str]]) -> None:
    assert set(rows) == {one.row for one in MEASUREMENTS}


@pytest.mark.parametrize("one", MEASUREMENTS, ids=lambda one: one.row)
def test_a_rules_range_is_the_one_that_the_page_states(
    one: Measurement, rows: dict[str, list[str]]
) -> None:
    _, _, memory, iops, sessions, data, where = rows[one.row]
    assert memory == " to ".join(dict.fromkeys(pretty_bytes(end) for end in one.memory))
    assert iops == ("any" if one.iops is None else str(one.iops[0]))
    assert sessions == " to ".join(dict.fromkeys(map(str, one.sessions)))
    assert data == ("any" if one.data is None else " to ".join(f"{end:g}" for end in one.data))
    assert where.startswith("[")


def test_no_rule_calls_itself_measured_everywhere() -> None:
    """Only a row's range, or this server's counters, can make a value more than convention."""
    assert not [rule.name for rule in RULES.values() if rule.basis is Basis.MEASURED]


#: What bench/small_volume.py measured: docs/measured-results.md, flushes and buffers.
LIKE: Final[dict[str, Any]] = {
    "memory": "2GB", "cpus": 2, "workload": "oltp", "storage": "ebs", "connections": 20,
    "iops": 3000, "throughput": "125MB", "data": "6GB", "postgres": 18,
}  # fmt: skip
SMALL_VOLUME: Final = ("shared_buffers", "backend_flush_after", "commit_delay")
#: One fact of the machine changed at a time: none of these was measured.
UNLIKE: Final[list[dict[str, Any]]] = [
    {"memory": "4GB"}, {"cpus": 64}, {"cpus": None}, {"workload": "mixed"}, {"storage": "hdd"},
    {"storage": "network"}, {"storage": None}, {"connections": 200}, {"connections": None},
    {"active": 2}, {"iops": 3001}, {"iops": None}, {"throughput": "1MB"}, {"throughput": None},
    {"wal_disk": "10GB"}, {"data": "2100MB"}, {"data": "1TB"}, {"data": None}, {"postgres": 13},
    {"postgres": 17},
]  # fmt: skip


def test_values_are_measured_on_a_machine_like_the_one_of_their_rows() -> None:
    tuning = mrtuner.tune(**LIKE)
    assert measured_against(tuning)
    assert {str(tuning[name].basis) for name in SMALL_VOLUME} == {"measured"}


@pytest.mark.parametrize("changed", UNLIKE, ids=str)
def test_no_value_is_measured_where_one_fact_is_another_or_unknown(changed: dict[str, Any]) -> None:
    tuning = mrtuner.tune(**LIKE | changed)
    assert measured_against(tuning) is None
    assert not [name for name in SMALL_VOLUME if str(tuning[name].basis) == "measured"]


def test_the_ratio_is_not_told_where_the_advice_is_not_what_was_measured() -> None:
    """A delay of commits that cannot be changed: the nine pairs had half a millisecond."""
    tuning = mrtuner.tune(**LIKE)
    other = replace(tuning["commit_delay"], target=0)
    assert (
        measured_against(replace(tuning, advice={**tuning.advice, "commit_delay": other})) is None
    )


def test_a_sort_in_one_pass_is_measured_for_up_to_eight_sessions() -> None:
    """docs/measured-results.md, row-one-merge-pass: 8 sessions with 1 GB, one with 23 GB."""
    machine: dict[str, Any] = {"memory": "16GB", "cpus": 2, "storage": "ssd", "postgres": 18}
    bases = {
        many: str(mrtuner.tune(connections=many, **machine)["work_mem"].basis) for many in (8, 20)
    }
    assert bases == {8: "measured", 20: "convention"}


# --- a known fact never gives a worse answer than an unknown one

#: More is better for these, as far as the fact in question allows it.
MORE: Final = (
    "shared_buffers", "work_mem", "max_wal_size", "min_wal_size", "autovacuum_vacuum_cost_limit",
    "effective_io_concurrency", "maintenance_io_concurrency", "maintenance_work_mem",
    "autovacuum_max_workers", "max_parallel_workers", "checkpoint_timeout",
)  # fmt: skip
MACHINES: Final[list[dict[str, Any]]] = [
    {"memory": memory, "cpus": cpus, "workload": workload, "connections": connections,
     "postgres": 18}
    for memory, cpus, workload, connections in product(
        (1 * GIB, 4 * GIB, 64 * GIB, 1024 * GIB), (2, 16, 64), ("web", "oltp", "olap", "mixed"),
        (20, 200),
    )
    if (memory, connections) != (1 * GIB, 200)
]  # fmt: skip
FACTS: Final[dict[str, list[Any]]] = {
    "storage": ["hdd", "ssd", "nvme", "ebs", "network"],
    "iops": [100, 3000, 16_000, 256_000],
    "throughput": [125 * MIB, 4096 * MIB],
    "disk": [GIB, 20 * GIB, 500 * GIB, 20_000 * GIB],
    "wal_disk": [GIB, 10 * GIB, 500 * GIB],
    "data": [GIB, 30 * GIB, 3000 * GIB],
}
#: The work_mem that sorts so much data in one merge pass: sqrt(data * 272 kB), by hand, rounded up.
ONE_PASS: Final = {GIB: 17 * MIB, 30 * GIB: 91 * MIB, 3000 * GIB: 904 * MIB}


def sizes(tuning: Tuning) -> dict[str, float]:
    """Numbers of the parameters in MORE, in bytes where they are sizes; -1 is taken as 0."""
    found = {}
    for name in MORE:
        item = tuning[name]
        assert isinstance(item.target, (int, float))
        found[name] = max(0, item.target) * (item.unit or 1)
    return found


def most(name: str, fact: str, value: Any, memory: int) -> float | None:
    """The most that a fact allows to a parameter, worked out by hand; None: no such limit."""
    wal = {"max_wal_size": 1.0, "min_wal_size": 0.25}.get(name)
    if wal is not None:
        return None if (room := _room_for_wal(fact, value)) is None else wal * room
    if name == "work_mem" and fact == "data":
        return ONE_PASS[value]
    if name == "shared_buffers" and fact == "data":
        return max(int(value) * 1.25, memory / 4)
    if name.endswith("io_concurrency") and value == "hdd":
        return 16  # a disk has few heads
    return None


def _room_for_wal(fact: str, value: int) -> float | None:
    """A tenth of a disk, 1 GB if a quarter holds it; half of WAL's own; ten minutes of replay."""
    if fact == "disk":
        return max(128 * MIB, value / 10, min(GIB, value / 4))
    if fact == "wal_disk":
        return value / 2
    if fact == "iops":
        return max(GIB, 600 * value * 8192)
    return max(GIB, 600 * value / 2) if fact == "throughput" else None


@pytest.mark.parametrize("fact", FACTS)
def test_a_known_fact_never_gives_a_worse_answer_than_an_unknown_one(fact: str) -> None:
    """As much as without the fact, or all that the fact allows."""
    worse = []
    for given in MACHINES:
        unknown = sizes(mrtuner.tune(**given))
        for value in FACTS[fact]:
            known = sizes(mrtuner.tune(**given, **{fact: value}))
            for name in MORE:
                allowed = most(name, fact, value, given["memory"])
                least = unknown[name] if allowed is None else min(unknown[name], allowed)
                if known[name] < least * 0.99:  # sizes are rounded down to whole MB
                    worse.append((name, value, known[name], least, given))
    assert not worse, worse[:5]


@pytest.mark.parametrize("disk", [256 * MIB, GIB, 4 * GIB, 50 * GIB, 1000 * GIB])
def test_wal_never_takes_more_than_half_of_a_known_volume(disk: int) -> None:
    tuning = mrtuner.tune(memory="64GB", cpus=8, disk=disk, workload="oltp")
    assert sizes(tuning)["max_wal_size"] <= disk / 2


def test_a_crash_without_rto_is_recovered_from_within_ten_minutes() -> None:
    """At the slower rate, on every machine of the grid whose disk is large."""
    for given in MACHINES:
        for iops in (None, 3000, 16_000):
            recovery = mrtuner.tune(**given, disk="20TB", iops=iops).recovery
            assert recovery is not None
            assert recovery.slow <= 600


def test_of_a_volume_only_what_nobody_gave_is_called_assumed() -> None:
    """40 MB/s at worst for 2400 MB; the disk does 60 * 150 requests, fewer than 1 GB has pages."""
    machine: dict[str, Any] = {
        "memory": "16GB", "cpus": 4, "disk": "2TB", "rto": "60s", "throughput": "125MB",
    }  # fmt: skip
    ebs, disk = (mrtuner.tune(storage=storage, **machine) for storage in ("ebs", "hdd"))
    assert [one.text for one in ebs.notices if one.text.startswith("crash recovery")] == [
        "crash recovery takes at most 60 s only on a volume of 125 MB/s and enough IOPS (assumed "
        "without --iops): give --iops"
    ]
    assert disk.recovery is not None
    assert disk.recovery.pace == "on a volume of 125 MB/s and 150 IOPS (assumed without --iops)"


@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        # 1 GB, the least that --rto asks for: 131,072 pages of 8 kB are 874 s at 150 a second.
        ("hdd", "may take 14.6 min, on a volume of 150 IOPS (assumed without --iops), more"),
        ("ebs", "takes at most 60 s only on a fast disk (assumed without --iops): give --iops and"),
        ("network", "takes at most 60 s only on a fast disk"),
        (None, "takes at most 60 s only on a fast disk"),
        ("ssd", None),
        ("nvme", None),
    ],
)
def test_no_recovery_time_is_promised_for_a_volume_that_nobody_knows(
    storage: str | None, expected: str | None
) -> None:
    machine: dict[str, Any] = {"memory": "16GB", "cpus": 4, "disk": "2TB", "rto": "60s"}
    tuning = mrtuner.tune(workload="oltp", storage=storage, **machine)
    told = [one.text for one in tuning.notices if one.text.startswith("crash recovery")]
    if expected is None:
        assert not told
    else:
        assert f"crash recovery {expected}" in told[0]
    if storage != "hdd":
        known = mrtuner.tune(workload="oltp", storage=storage, iops=256_000, **machine)
        assert not [one for one in known.notices if one.text.startswith("crash recovery")]
