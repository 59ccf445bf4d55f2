"""What a running server changes in a rule's answer: its values, its build, its counters.

The situations are built by hand: 18 with its defaults, 32 GB, 8 CPUs, an SSD, OLTP and the
server's own 100 connections, with changes.
"""

from __future__ import annotations

from dataclasses import replace
from math import floor
from typing import TYPE_CHECKING, Any, Final

import pytest

from mrtuner.catalog import parameters
from mrtuner.inputs import Storage, Workload
from mrtuner.tuning import notices
from mrtuner.tuning.crash_recovery import replay
from mrtuner.tuning.feasibility import settle, solve, values_to_lower
from mrtuner.tuning.situation import (
    BufferWrites,
    Clock,
    Connections,
    Cpus,
    Data,
    Disk,
    Memory,
    Rto,
    Seen,
    Situation,
    Spills,
    Throughput,
    Transactions,
    Wal,
    WalDisk,
    Window,
)
from mrtuner.units import Bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mrtuner.tuning.advice import Advice

MIB, GIB, TIB = 2**20, 2**30, 2**40
HOUR = 3600.0
#: pg_settings of a fresh server where the catalogue has no default of its own.
MADE_BY_INITDB = {"shared_buffers": "16384", "max_connections": "100"}


def fresh(major: int) -> dict[str, str]:
    """pg_settings.setting of a server that nobody has touched."""
    words = {True: "on", False: "off"}
    defaults = {name: each.default for name, each in parameters(major).items()}
    return {
        name: words[value] if isinstance(value, bool) else str(value)
        for name, value in defaults.items()
        if value is not None
    } | MADE_BY_INITDB | {"wal_segment_size": str(16 * MIB)}  # fmt: skip


def live(running: Mapping[str, str] | None = None, major: int = 18, **facts: Any) -> Situation:
    usual: dict[str, Any] = {
        "workload": Workload.OLTP,
        "connections": Connections(None, seen=5),
        "memory": Memory(Bytes(32 * GIB)),
        "cpus": Cpus(8),
        "storage": Storage.SSD,
        "disk": Disk(Bytes(TIB), None),
    }
    changed = dict(running or {})
    values = fresh(major) | changed
    origins = dict.fromkeys(values, "default") | dict.fromkeys(changed, "file")
    return Situation(major=major, **({"running": values, "origins": origins} | usual | facts))


def advised(name: str, situation: Situation) -> Advice:
    return solve(situation).advice[name]


def answer(name: str, situation: Situation) -> tuple[str, str]:
    item = advised(name, situation)
    return item.to_dict()["verdict"], item.value


# --- WAL: the measured rate, the interval, the segments, the disk


def wal(rate_mib: float, **changes: Any) -> Wal:
    """Six hours at `rate_mib` MiB/s on average; the peak is taken as three times that."""
    window = changes.pop("window", 6 * HOUR)
    fields = {"timed": 72, "requested": 0} | changes
    return Wal(window=window, written=Bytes(int(rate_mib * MIB * window)), **fields)


def test_max_wal_size_holds_one_interval_at_the_measured_peak() -> None:
    """1 MiB/s on average, 3 at peak, over 900 s: 2700 MiB are 169 segments of 16 MiB, and one
    because PostgreSQL starts early; times 1.9 for the spread checkpoint: 323 segments.
    The profile would say 16 GB.
    """
    item = advised("max_wal_size", live(wal=wal(1)))
    assert item.target == 323 * 16
    assert item.value == "5168MB"
    assert item.basis == "observed"
    assert item.reason == (
        "3 MB/s of WAL at peak over 15 min; 0 of 72 checkpoints were requested on this server"
    )


def test_the_size_is_enough_by_the_servers_own_arithmetic() -> None:
    """xlog.c: a checkpoint is forced floor(size / (1 + target)) - 1 segments after the last."""
    assert floor(5168 / 16 / (1 + 0.9)) - 1 == 169
    assert 169 * 16 >= 2700 > 168 * 16


def test_larger_segments_are_counted_as_they_are() -> None:
    """2700 MiB are 43 segments of 64 MiB; (43 + 1) * 1.9 = 83.6, 84 of them."""
    item = advised("max_wal_size", live({"wal_segment_size": str(64 * MIB)}, wal=wal(1)))
    assert item.target == 84 * 64


def test_an_interval_of_your_own_is_reckoned_with() -> None:
    """3 MiB/s over 3600 s are 675 segments; 676 * 1.9 = 1284.4, 1285 of them."""
    situation = live({"checkpoint_timeout": "3600"}, wal=wal(1))
    assert advised("max_wal_size", situation).target == 1285 * 16


def test_a_completion_target_that_cannot_be_changed_is_reckoned_with() -> None:
    """170 segments * 1.5 = 255."""
    situation = live(
        {"checkpoint_completion_target": "0.5"},
        wal=wal(1),
        fixed={"checkpoint_completion_target": "set on the command line"},
    )
    assert answer("checkpoint_completion_target", situation) == ("keep", "0.5")
    assert advised("max_wal_size", situation).target == 255 * 16


def test_wal_watched_under_load_is_taken_as_the_peak_it_is() -> None:
    """A minute at 3 MiB/s says as much as six hours at 1."""
    situation = live(wal=wal(3, window=60.0, timed=0, watched=True))
    assert advised("max_wal_size", situation).target == 323 * 16


@pytest.mark.parametrize(
    ("iops", "took", "now", "says"),
    [
        # One and a half requests of 1/3000 s are 500 us, six are 2000.
        (3000, 0.0016, "0", ("change", "500", "convention")),
        (3000, 0.0040, "0", ("change", "1000", "observed")),
        (3000, 0.1000, "0", ("change", "2000", "observed")),
        (6000, 0.1000, "0", ("change", "1000", "observed")),
        (1000, 0.1000, "0", ("change", "2000", "observed")),  # more was not measured
        (3000, 0.0040, "800", ("change", "1000", "observed")),
        (3000, 0.0040, "1500", ("keep", "1500", None)),  # somebody chose it
    ],
)
def test_commits_wait_a_quarter_of_a_watched_transaction(
    iops: int, took: float, now: str, says: tuple[str, str, str | None]
) -> None:
    situation = live(
        {"commit_delay": now} if now != "0" else None,
        throughput=Throughput(iops, None), transactions=Transactions(took),
    )  # fmt: skip
    item = advised("commit_delay", situation)
    verdict = item.to_dict()["verdict"]
    assert (verdict, item.value, str(item.basis) if verdict == "change" else None) == says


@pytest.mark.parametrize(
    ("seconds", "checkpoints", "seen", "enough"),
    [
        (3600.0, 3, Seen.RESET, True),
        (3599.0, 30, Seen.RESET, False),  # less than an hour
        (36_000.0, 2, Seen.RESET, False),  # too few checkpoint cycles
        (36_000.0, None, Seen.RESET, False),  # they could not be read
        (60.0, 1, Seen.WATCHED, False),
        (3600.0, 3, Seen.WATCHED, True),
        (60.0, 0, Seen.RECORDED, True),  # the busiest minute of a history
    ],
)
def test_counters_count_over_an_hour_and_some_checkpoint_cycles(
    seconds: float, checkpoints: int | None, seen: Seen, enough: bool
) -> None:
    window = Window(seconds, checkpoints, seen)
    assert window.long_enough == enough
    assert window.shows_wal_rate == (enough or seen is Seen.WATCHED)
    assert not replace(window, loaded="public.t", seen=Seen.RESET).long_enough


def test_measured_wal_is_held_by_the_disk() -> None:
    """A tenth of 30 GB is 3 GB, below the 5168 MB of an interval."""
    item = advised("max_wal_size", live(wal=wal(1), disk=Disk(Bytes(30 * GIB), None)))
    assert item.value == "3GB"
    assert "limited by disk size" in item.reason


def test_a_full_disk_holds_more_than_a_large_one_allows() -> None:
    """A quarter of the 8 GB free, not a tenth of 1 TB; the profile's value is limited, too."""
    disk = Disk(Bytes(1024 * GIB), Bytes(8 * GIB))
    assert answer("max_wal_size", live(wal=wal(1), disk=disk)) == ("change", "2GB")
    assert answer("max_wal_size", live(disk=disk)) == ("change", "2GB")


def test_where_the_disk_forbids_more_the_gap_is_said() -> None:
    """A quarter of 2 GB is below the minimum of 1 GB, which the server has."""
    item = advised("max_wal_size", live(wal=wal(1), disk=Disk(None, Bytes(2 * GIB))))
    assert (item.to_dict()["verdict"], item.value) == ("keep", "1GB")
    assert "an interval needs 5.05 GB" in item.reason
    assert "limited by disk size" in item.reason


def test_a_disk_without_any_room_is_not_a_disk_without_a_limit() -> None:
    full = Disk(Bytes(1024 * GIB), Bytes(0))
    assert answer("max_wal_size", live(disk=full)) == ("keep", "1GB")
    assert answer("max_wal_size", live(disk=Disk(None, Bytes(0)))) == ("keep", "1GB")


def test_max_wal_size_is_never_lowered() -> None:
    """Neither a low rate nor a profile lowers it: your value stays, and the reason says why."""
    measured = advised("max_wal_size", live({"max_wal_size": "8192"}, wal=wal(1)))
    assert (measured.to_dict()["verdict"], measured.value) == ("keep", "8GB")
    assert "an interval needs 5.05 GB" in measured.reason
    assert answer("max_wal_size", live({"max_wal_size": "65536"})) == ("keep", "64GB")


def test_measured_wal_needs_no_memory() -> None:
    assert answer("max_wal_size", live(memory=None, wal=wal(1))) == ("change", "5168MB")
    assert answer("max_wal_size", live(memory=None)) == ("unknown", "1GB")


def test_max_wal_size_is_not_raised_while_nobody_has_seen_the_volume() -> None:
    """Neither a profile nor a measured rate may fill it: at 3 MiB/s an interval needs 5168 MB."""
    asked = "needs --disk or --wal-disk"
    unseen: dict[str, Any] = {"disk": None}
    for facts in (unseen, unseen | {"wal": wal(1)}, unseen | {"wal": wal(1), "memory": None}):
        for running, now in (({}, "1GB"), ({"max_wal_size": "512"}, "512MB")):
            item = advised("max_wal_size", live(running, **facts))
            assert (item.to_dict()["verdict"], item.value) == ("unknown", now)
            assert item.reason == asked
    assert answer("min_wal_size", live(disk=None, wal=wal(1))) == ("change", "256MB")
    # What a server already has stays, and less can be asked for.
    assert answer("max_wal_size", live({"max_wal_size": "8192"}, disk=None)) == ("keep", "8GB")
    own = live({"max_wal_size": "8192"}, disk=None, rto=Rto(60.0))
    assert answer("max_wal_size", own) == ("change", "2400MB")


def test_wal_on_its_own_volume_counts_with_that_volume() -> None:
    """Half of 8 GB, and half of the 6 GB free; the data's volume of 1 TB does not matter."""
    assert answer("max_wal_size", live(wal_disk=WalDisk(Bytes(8 * GIB), None)))[1] == "4GB"
    apart = WalDisk(Bytes(8 * GIB), Bytes(6 * GIB))
    assert answer("max_wal_size", live(wal_disk=apart, wal=wal(1))) == ("change", "3GB")
    large = WalDisk(Bytes(100 * GIB), None)
    small = Disk(Bytes(20 * GIB), None)
    assert answer("max_wal_size", live(wal_disk=large, disk=small)) == ("change", "16GB")


def test_a_volume_of_wal_that_cannot_be_seen_is_taken_to_be_small() -> None:
    """4 GB, or what the data's volume would give if WAL lies there after all: a tenth of 20 GB."""
    unseen = WalDisk(None, None)
    assert answer("max_wal_size", live(wal_disk=unseen)) == ("change", "4GB")
    small = Disk(Bytes(20 * GIB), None)
    assert answer("max_wal_size", live(wal_disk=unseen, disk=small)) == ("change", "2GB")
    # What somebody has set stays, also where the rate calls for more.
    own = live({"max_wal_size": "512"}, wal_disk=unseen)
    assert answer("max_wal_size", own) == ("keep", "512MB")
    busy = advised("max_wal_size", replace(own, wal=wal(1)))
    assert (busy.changes, busy.value) == (False, "512MB")
    assert "(--wal-disk)" in busy.reason


def test_with_more_than_a_tenth_forced_an_average_rate_is_no_reason_to_keep() -> None:
    """4 GB now; 1 MiB/s on average needs 323 segments of 16 MiB, 5168 MiB, at its assumed peak of
    three times that; here the average is 0.3, so 4 GB would seem to suffice: 0.9 MiB/s over 900 s
    are 51 segments, 52 * 1.9 = 98.8, 1584 MiB. But 10 of 82 checkpoints were forced, and 6 h at
    0.3 MiB/s are 6480 MiB, enough for 3 of them (one every 4096 / 1.9 = 2156 MiB): 3 of 82.
    """
    few = wal(0.3, timed=72, requested=10)
    assert answer("max_wal_size", live({"max_wal_size": "4096"}, wal=few)) == ("keep", "4GB")
    # With 1 GB there is one every 539 MiB, so volume can have forced all 12 of 84. 1584 MiB are
    # less than twice the present value.
    many = wal(0.3, timed=72, requested=12)
    grown = advised("max_wal_size", live(wal=many))
    assert (grown.value, grown.basis) == ("2GB", "observed")
    assert "--watch" in grown.reason
    # Within the disk: a tenth of 15 GB.
    tight = live(wal=many, disk=Disk(Bytes(15 * GIB), None))
    assert answer("max_wal_size", tight) == ("change", "1536MB")


def test_one_in_ten_forced_checkpoints_is_few() -> None:
    """8 of 80 is a tenth, 9 of 81 more. 1 MiB/s at most needs 5168 MB, which is in force."""
    calm = wal(1, timed=72, requested=8)
    assert answer("max_wal_size", live({"max_wal_size": "6144"}, wal=calm)) == ("keep", "6GB")
    forced = wal(1, timed=72, requested=9)  # 21,600 MiB / (6144 / 1.9) = 6.7 at most by volume
    assert answer("max_wal_size", live({"max_wal_size": "6144"}, wal=forced)) == ("keep", "6GB")
    forced = wal(2, timed=72, requested=9)  # 43,200 MiB: all nine
    assert answer("max_wal_size", live({"max_wal_size": "6144"}, wal=forced)) == ("change", "12GB")


def test_what_was_watched_is_believed_even_when_checkpoints_were_forced() -> None:
    """A peak needs no doubling: 3 MiB/s over 900 s need 5168 MB."""
    seen = wal(3, window=60.0, timed=0, requested=1, watched=True)
    assert answer("max_wal_size", live({"max_wal_size": "4096"}, wal=seen)) == ("change", "5168MB")
    assert answer("max_wal_size", live({"max_wal_size": "6144"}, wal=seen)) == ("keep", "6GB")


def test_an_average_that_hides_forced_checkpoints_promises_no_short_recovery() -> None:
    """12 of 84 forced: all of max_wal_size (2 GB) may be left, not 1.9 intervals of 0.9 MiB/s."""
    situation = live(wal=wal(0.3, timed=72, requested=12))
    solution = solve(situation)
    found = notices.recovery(situation, solution.advice)
    assert found is not None
    assert found.wal == 2 * GIB


def test_the_recovery_allowed_bounds_max_wal_size() -> None:
    """40 MiB a second at worst: 2400 MiB in a minute. It may lower what is in force."""
    minute = Rto(60.0)
    assert answer("max_wal_size", live(rto=minute)) == ("change", "2400MB")
    assert answer("max_wal_size", live(rto=minute, wal=wal(1))) == ("change", "2400MB")
    lowered = advised("max_wal_size", live({"max_wal_size": "65536"}, rto=minute, wal=wal(1)))
    assert lowered.value == "2400MB"
    assert "--rto" in lowered.reason
    # A small disk's limit still holds: a tenth of 15 GB.
    small = live(rto=minute, disk=Disk(Bytes(15 * GIB), None))
    assert answer("max_wal_size", small) == ("change", "1536MB")


def test_recovery_follows_the_volumes_iops_and_bandwidth() -> None:
    """3,000 IOPS of 8 kB pages are 23.4 MiB a second, 1406 MiB in a minute; merged sixteen at a
    time 375 MiB, but 125 MiB/s are read and written: 62.5 MiB.
    """
    volume = Throughput(3000, Bytes(125 * MIB))
    pace = replay(live(throughput=volume))
    assert pace.slow == 3000 * 8192
    assert pace.fast == 62.5 * MIB
    assert answer("max_wal_size", live(rto=Rto(60.0), throughput=volume))[1] == "1406MB"
    fast = replay(live(throughput=Throughput(1_000_000, None)))
    assert (fast.slow, fast.fast) == (40 * MIB, 200 * MIB)


@pytest.mark.parametrize("volume", [None, Throughput(None, Bytes(125 * MIB))], ids=str)
def test_a_hard_disk_replays_as_fast_as_150_requests_a_second_allow(
    volume: Throughput | None,
) -> None:
    """150 pages of 8 kB, or 150 merged writes of 128 kB, which are 18.75 MiB."""
    pace = replay(live(storage=Storage.HDD, throughput=volume))
    assert (pace.slow, pace.fast) == (150 * 8192, 18.75 * MIB)
    given = replay(live(storage=Storage.HDD, throughput=Throughput(80, None)))
    assert (given.slow, given.how) == (80 * 8192, "on a volume of 80 IOPS")


def test_min_wal_size_follows_what_was_measured() -> None:
    assert answer("min_wal_size", live(wal=wal(1))) == ("change", "1292MB")  # 5168 / 4


# --- work_mem: temporary files that need a second merge pass raise it, the budget stays


def roomy(**facts: Any) -> Situation:
    """256 GB for 50 connections: 1434 MB would be left to each of them."""
    memory = Memory(Bytes(256 * GIB))
    return live({"max_connections": "50"}, **({"memory": memory} | facts))


def spills(average: int) -> Spills:
    return Spills(window=HOUR, files=10, size=Bytes(10 * average))


def test_temporary_files_raise_work_mem_to_what_one_merge_pass_needs() -> None:
    """size / work_mem runs of 272 kB each fit work_mem from its square root on: for 64 GB,
    sqrt(65536 MB * 0.265625 MB) = 131.9 MB. For 200 MB it is 7.3 MB: 8 MB are enough.
    """
    assert answer("work_mem", roomy()) == ("change", "8MB")
    assert answer("work_mem", roomy(spills=spills(200 * MIB))) == ("change", "8MB")
    item = advised("work_mem", roomy(spills=spills(64 * GIB)))
    assert item.value == "132MB"
    assert "temporary files of 64 GB" in item.reason


def test_a_reason_claims_temporary_files_only_where_they_moved_the_value() -> None:
    assert "temporary files" not in advised("work_mem", roomy(spills=spills(200 * MIB))).reason


def test_a_larger_work_mem_that_somebody_set_stays_within_the_budget() -> None:
    """32 GB for 200 connections leave 72 MB to each, half of it for a hash of twice work_mem: 32 MB
    fit, 64 MB do not. Only who names the setting gets it lowered.
    """
    own = live({"max_connections": "200", "work_mem": str(32 * 1024)})
    assert answer("work_mem", own) == ("keep", "32MB")
    assert values_to_lower(own) == {}
    large = live({"max_connections": "200", "work_mem": str(64 * 1024)})
    assert answer("work_mem", large) == ("keep", "64MB")
    assert {name: item.value for name, item in values_to_lower(large).items()} == {
        "work_mem": "8MB"
    }
    named = replace(large, lower=frozenset({"work_mem"}))
    assert answer("work_mem", named) == ("change", "8MB")


def test_nothing_that_needs_memory_is_raised_while_the_worst_case_does_not_fit() -> None:
    """A quarter of 32 GB would be 8 GB of buffers; 200 times 1 GB of work_mem come first."""
    large = live({"max_connections": "200", "work_mem": str(1024 * 1024)})
    held = settle(large).advice["shared_buffers"]
    assert (held.changes, held.value) == (False, "128MB")
    assert "--lower work_mem" in held.reason
    named = settle(replace(large, lower=frozenset({"work_mem"})))
    assert named.advice["shared_buffers"].value == "8GB"


def test_work_mem_is_not_made_useless_where_it_is_not_alone_to_blame() -> None:
    """2 GB, and 16 workers with maintenance_work_mem of 256 MB are 4 GB: none is left for sorts."""
    own = {"max_connections": "160", "work_mem": "102400", "autovacuum_max_workers": "16",
           "maintenance_work_mem": str(256 * 1024)}  # fmt: skip
    situation = live(own, memory=Memory(Bytes(2 * GIB)), lower=frozenset({"work_mem"}))
    held = settle(situation).advice["work_mem"]
    assert (held.changes, held.value) == (False, "100MB")
    assert "--lower autovacuum_max_workers" in held.reason
    assert not settle(situation).advice["wal_buffers"].changes
    both = replace(situation, lower=frozenset({"work_mem", *values_to_lower(situation)}))
    fits = settle(both)
    assert fits.holds
    assert fits.work_mem >= 256 * 1024


@pytest.mark.parametrize(("major", "name"), [(18, "io_workers"), (19, "io_max_workers")])
def test_no_workers_are_added_where_the_worst_case_does_not_fit(major: int, name: str) -> None:
    """Their 1 GB of work_mem for each of 500 sessions is beyond 32 GB already."""
    situation = live({"work_mem": str(GIB // 1024), "max_connections": "500"}, major, cpus=Cpus(64))
    assert solve(situation).advice[name].changes, "else there is nothing to hold back"
    assert not settle(situation).advice[name].changes


LOWERED: Final = {
    "work_mem": "262144", "maintenance_work_mem": "4194304", "autovacuum_work_mem": "1048576",
    "autovacuum_max_workers": "10", "max_parallel_workers": "32",
    "max_parallel_workers_per_gather": "8", "hash_mem_multiplier": "4", "max_wal_size": "131072",
    "checkpoint_timeout": "7200", "effective_io_concurrency": "500", "random_page_cost": "2",
    "autovacuum_vacuum_scale_factor": "0.01", "default_statistics_target": "1000",
    "wal_buffers": "16384", "bgwriter_lru_maxpages": "1000", "backend_flush_after": "16",
    "autovacuum_vacuum_cost_limit": "9000", "effective_cache_size": "8388608",
    "huge_pages": "off", "io_method": "sync",
}  # fmt: skip


@pytest.mark.parametrize(("name", "own"), LOWERED.items())
@pytest.mark.parametrize("workload", list(Workload))
def test_what_a_person_set_is_not_made_worse_without_evidence(
    name: str, own: str, workload: Workload
) -> None:
    """Each is larger, or stricter, than any advice for 32 GB, 8 CPUs and a terabyte of data."""
    situation = live({name: own}, workload=workload, data=Data(Bytes(TIB)))
    assert not advised(name, situation).changes


def test_temporary_files_never_raise_work_mem_above_the_budget() -> None:
    """32 GB for 200 connections leave 72.07 MB to each, 36 to a sort; 100 GB want 165 MB."""
    crowd = live({"max_connections": "200"}, spills=spills(100 * GIB))
    item = advised("work_mem", crowd)
    assert (item.value, item.basis) == ("36MB", "arithmetic")
    assert "what the budget leaves" in item.reason
    budget = solve(crowd).budget
    assert budget is not None
    assert budget.fits


# --- autovacuum and the background writer


@pytest.mark.parametrize(
    ("stops", "cpus", "expected"),
    [
        (61, 8, ("change", "500")),  # more than one a minute
        (60, 8, ("keep", "100")),
        (6000, 3, ("keep", "100")),
        (6000, 4, ("change", "500")),
    ],
)
def test_the_background_writer_is_let_loose_where_it_was_held_back(
    stops: int, cpus: int, expected: tuple[str, str]
) -> None:
    writes = BufferWrites(by_backends=0, clean_stops=stops, window=HOUR)
    situation = live(cpus=Cpus(cpus), buffer_writes=writes)
    assert answer("bgwriter_lru_maxpages", situation) == expected


@pytest.mark.parametrize(
    ("major", "gigabytes", "own", "expected"),
    [
        (14, 32, 2048, ("keep", "-1")),  # a vacuum takes 1 GB of it; a 64th of memory is 512 MB
        (16, 32, 513, ("keep", "-1")),
        (16, 32, 512, ("change", "512MB")),  # no less
        (14, 32, 128, ("change", "512MB")),  # more
        (14, 32, 64, ("change", "512MB")),  # nobody's
        (14, 2, 1024, ("change", "32MB")),  # three workers with 1 GB each do not fit into 2 GB
        (17, 32, 2048, ("change", "256MB")),  # dead rows take less memory since
    ],
)
def test_a_vacuum_goes_on_following_the_memory_that_somebody_gave_it(
    major: int, gigabytes: int, own: int, expected: tuple[str, str]
) -> None:
    running = {"maintenance_work_mem": str(own * 1024)}
    situation = live(running, major, memory=Memory(Bytes(gigabytes * GIB)))
    assert answer("autovacuum_work_mem", situation) == expected
    apart = live(running | {"autovacuum_work_mem": "131072"}, major)  # its own, 128 MB
    assert answer("autovacuum_work_mem", apart)[0] == "change"


# --- the server's own values


OWN_VALUES = [
    ("max_connections", {"max_connections": "123"}, "keep", "123"),
    ("huge_pages", {"huge_pages": "off"}, "keep", "off"),
    ("huge_pages", {"huge_pages": "on"}, "keep", "on"),
    ("autovacuum_vacuum_cost_delay", {"autovacuum_vacuum_cost_delay": "20"}, "change", "2ms"),
    ("autovacuum_vacuum_cost_delay", {"autovacuum_vacuum_cost_delay": "0"}, "keep", "0"),
    ("autovacuum_max_workers", {"autovacuum_max_workers": "10"}, "keep", "10"),
    ("checkpoint_timeout", {"checkpoint_timeout": "3600"}, "keep", "1h"),
    ("checkpoint_timeout", {"checkpoint_timeout": "900"}, "keep", "15min"),
    ("wal_compression", {"wal_compression": "zstd"}, "keep", "zstd"),
    ("wal_compression", {"wal_compression": "lz4"}, "keep", "lz4"),
    ("io_method", {"io_method": "sync"}, "keep", "sync"),
    ("io_method", {"io_method": "io_uring"}, "keep", "io_uring"),
    ("jit", {"jit": "off"}, "keep", "off"),
    ("track_io_timing", {"track_io_timing": "on"}, "keep", "on"),
    ("fsync", {"fsync": "off"}, "change", "on"),
    ("full_page_writes", {"full_page_writes": "off"}, "change", "on"),
    ("synchronous_commit", {"synchronous_commit": "off"}, "change", "on"),
    ("synchronous_commit", {"synchronous_commit": "remote_apply"}, "keep", "remote_apply"),
    (
        "shared_preload_libraries",
        {"shared_preload_libraries": "auto_explain, timescaledb"},
        "change",
        "auto_explain,timescaledb,pg_stat_statements",
    ),
    (
        "shared_preload_libraries",
        {"shared_preload_libraries": "pg_stat_statements"},
        "keep",
        "pg_stat_statements",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "running", "verdict", "value"), OWN_VALUES)
def test_a_servers_own_value_is_judged_not_overwritten(
    name: str, running: dict[str, str], verdict: str, value: str
) -> None:
    assert answer(name, live(running)) == (verdict, value)


def test_durability_that_is_off_is_said_and_never_changed() -> None:
    running = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
    advice = solve(live(running)).advice
    assert all(advice[name].suggested for name in running)
    assert not [name for name in running if advice[name].changes]


def test_a_multiplier_of_your_own_stays_and_is_counted() -> None:
    """18 with 4: work_mem is a fourth of what is left."""
    own = live({"hash_mem_multiplier": "4"})
    assert answer("hash_mem_multiplier", own) == ("keep", "4")
    assert answer("hash_mem_multiplier", live()) == ("keep", "2")
    assert answer("hash_mem_multiplier", live(major=13)) == ("keep", "1")
    budget = solve(own).budget
    assert budget is not None
    assert "work_mem * 4 each" in budget.parts[1].how


@pytest.mark.parametrize("name", ["wal_compression", "default_toast_compression"])
def test_lz4_is_advised_where_the_build_proves_to_have_it(name: str) -> None:
    taken = {name: ("pglz", "lz4", "on", "off")}
    assert answer(name, live(enum_values=taken)) == ("change", "lz4")


def test_a_build_without_lz4_keeps_what_it_has() -> None:
    lacking = {
        "wal_compression": ("pglz", "on", "off"),
        "default_toast_compression": ("pglz",),
    }
    compression = advised("wal_compression", live(enum_values=lacking))
    assert compression.value == "off"
    assert "this build lacks lz4" in compression.reason
    assert answer("default_toast_compression", live(enum_values=lacking)) == ("keep", "pglz")


@pytest.mark.parametrize(
    ("clock", "expected"),
    [
        ("tsc", ("change", "on")),
        ("kvm-clock", ("change", "on")),
        ("arch_sys_counter", ("change", "on")),
        ("acpi_pm", ("keep", "off")),
        ("xen", ("keep", "off")),
    ],
)
def test_reads_are_timed_where_the_clock_is_cheap(clock: str, expected: tuple[str, str]) -> None:
    assert answer("track_io_timing", live(clock=Clock(clock))) == expected


# --- near enough, fixed, and hidden


@pytest.mark.parametrize(
    ("pages", "verdict"),
    [
        (1048576, "keep"),  # 8 GB: already so
        (996148, "keep"),  # 95.0001 % of it: near enough
        (996147, "change"),  # 94.99999 %
        (1048577, "keep"),  # more than advised: somebody's choice
    ],
)
def test_slightly_less_memory_than_advised_is_left_alone(pages: int, verdict: str) -> None:
    item = advised("shared_buffers", live({"shared_buffers": str(pages)}))
    assert item.to_dict()["verdict"] == verdict
    assert item.target == (pages if verdict == "keep" else 1048576)


def test_near_enough_is_for_memory_alone() -> None:
    """63 and 64 are different counts, and changing a count does not reallocate memory."""
    running = {"effective_io_concurrency": "63"}
    assert answer("effective_io_concurrency", live(running)) == ("change", "64")


def test_no_more_reads_are_asked_for_than_a_process_may_have_in_flight() -> None:
    """aio_init.c: 64 unless io_max_concurrency is set; before I/O workers the queue ends at 64."""
    few = {"io_max_concurrency": "32"}
    assert answer("effective_io_concurrency", live(few)) == ("change", "32")
    many = {"io_max_concurrency": "256", "io_method": "worker"}
    assert answer("effective_io_concurrency", live(many)) == ("change", "64")
    ring = many | {"io_method": "io_uring"}
    assert answer("effective_io_concurrency", live(ring)) == ("change", "128")
    assert answer("maintenance_io_concurrency", live(ring)) == ("change", "128")


def test_more_reads_than_can_be_in_flight_are_left_alone() -> None:
    """200 has the same effect as 64, so a change would gain nothing."""
    assert answer("effective_io_concurrency", live({"effective_io_concurrency": "200"})) == (
        "keep", "200",
    )  # fmt: skip
    assert answer("effective_io_concurrency", live({"effective_io_concurrency": "1"})) == (
        "change", "64",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "own", "shown"),
    [
        ("log_temp_files", "0", "0"),
        ("log_autovacuum_min_duration", "5000", "5s"),
        ("max_slot_wal_keep_size", "10240", "10GB"),
        ("temp_file_limit", "1048576", "1GB"),
    ],
)
def test_a_suggestion_does_not_contradict_what_somebody_has_set(
    name: str, own: str, shown: str
) -> None:
    assert answer(name, live({name: own})) == ("keep", shown)
    assert answer(name, live())[0] == "change"


def test_backend_flush_after_follows_what_this_servers_backends_write() -> None:
    """10 MiB/s are 1280 pages a second; a local disk otherwise keeps it off."""
    hour = 3600
    busy = BufferWrites(by_backends=1281 * hour, clean_stops=0, window=hour)
    item = advised("backend_flush_after", live(buffer_writes=busy))
    assert (item.value, item.basis) == ("256kB", "observed")
    calm = BufferWrites(by_backends=1280 * hour, clean_stops=0, window=hour)
    assert answer("backend_flush_after", live(buffer_writes=calm)) == ("keep", "0")


def test_the_cost_limit_grows_with_the_workers_and_never_sinks() -> None:
    """32 CPUs and 32 GB have four workers: 200 * 4 / 3 = 266.7. -1 stands for vacuum_cost_limit."""
    disk: dict[str, Any] = {"cpus": Cpus(32), "storage": Storage.HDD}
    assert answer("autovacuum_max_workers", live(**disk)) == ("change", "4")
    assert answer("autovacuum_vacuum_cost_limit", live(**disk)) == ("change", "267")
    higher = {"vacuum_cost_limit": "2000"}
    assert answer("autovacuum_vacuum_cost_limit", live(higher, **disk)) == ("keep", "-1")
    own = {"autovacuum_vacuum_cost_limit": "300"}
    assert answer("autovacuum_vacuum_cost_limit", live(own, **disk)) == ("keep", "300")
    # A worker number of your own counts: 10 workers, 200 * 10 / 3 = 666.7.
    many = {"autovacuum_max_workers": "10"}
    fixed = {"autovacuum_max_workers": "set on the command line"}
    item = answer("autovacuum_vacuum_cost_limit", live(many, fixed=fixed, storage=Storage.HDD))
    assert item == ("change", "667")


def test_what_is_fixed_is_kept_with_the_reason_and_counted() -> None:
    crowd = {"max_connections": "2000"}  # so many that the budget decides
    situation = live(
        crowd | {"shared_buffers": "131072"}, fixed={"shared_buffers": "the operator's"}
    )
    item = advised("shared_buffers", situation)
    assert (item.to_dict()["verdict"], item.value, item.reason) == ("keep", "1GB", "the operator's")
    free = advised("work_mem", live(crowd)).target
    more = advised("work_mem", situation).target
    assert isinstance(free, int)
    assert isinstance(more, int)
    assert more > free, "seven gigabytes less of buffers are there for the sessions"


def test_a_server_without_its_memory_known_gets_the_rest() -> None:
    advice = solve(live(memory=None)).advice
    unknown = {name for name, item in advice.items() if item.to_dict()["verdict"] == "unknown"}
    assert unknown == {
        "shared_buffers",
        "effective_cache_size",
        "maintenance_work_mem",
        "autovacuum_work_mem",
        "max_wal_size",
        "work_mem",
        "track_io_timing",
    }
    assert {advice[name].reason for name in unknown - {"track_io_timing"}} == {"needs --memory"}
    assert advice["checkpoint_timeout"].value == "15min"


def test_a_value_that_the_role_may_not_see_is_unknown_not_the_default() -> None:
    """Only superusers see shared_preload_libraries, so the list is not known to be empty."""
    full = live()
    seen = {name: text for name, text in full.running.items() if name != "shared_preload_libraries"}
    item = advised("shared_preload_libraries", replace(full, running=seen))
    assert item.to_dict()["verdict"] == "unknown"
    assert (item.now, item.value) == (None, "")
    assert "pg_read_all_settings" in item.reason


def test_wal_buffers_that_the_server_worked_out_are_counted_as_they_will_be() -> None:
    """4 MB of WAL buffers belong to 128 MB of buffers; 8 GB will bring a segment of 16 MB.
    Shared memory: 8192 * 1.03 + 16 + (100 + 12) * 112 kB + 20 = 8486.01 MB.
    """
    situation = live()
    seen = dict(situation.running) | {"wal_buffers": "512"}
    for origin in ("default", "computed"):
        origins = dict(situation.origins) | {"wal_buffers": origin}
        budget = solve(replace(situation, running=seen, origins=origins)).budget
        assert budget is not None
        assert round(budget.shared / MIB, 2) == 8486.01


# --- a person's own value


def test_counters_that_call_for_more_lower_nobodys_value() -> None:
    """Files of 500 MB are merged at once with less than the 64 MB in force; so with 1,000 pages."""
    own = live({"work_mem": str(64 * 1024)}, spills=spills(500 * MIB))
    assert answer("work_mem", own) == ("keep", "64MB")
    writes = BufferWrites(by_backends=0, clean_stops=600, window=HOUR)
    busy = live({"bgwriter_lru_maxpages": "1000"}, buffer_writes=writes)
    assert answer("bgwriter_lru_maxpages", busy) == ("keep", "1000")
    assert answer("bgwriter_lru_maxpages", live(buffer_writes=writes)) == ("change", "500")


def test_connections_that_are_asked_for_lower_a_value_of_ones_own() -> None:
    """100 for applications and the 3 that are reserved; without the option, 2,000 stay."""
    own = {"max_connections": "2000"}
    asked = live(own, connections=Connections(100, seen=5))
    assert answer("max_connections", asked) == ("change", "103")
    assert answer("max_connections", live(own)) == ("keep", "2000")


def test_a_value_of_our_own_session_is_not_taken_for_the_servers() -> None:
    """The role may not read the files, and ALTER DATABASE hides what they say."""
    for origin in ("database", "role", "client"):
        hidden = live({"random_page_cost": "1.1", "work_mem": "65536"})
        origins = {**hidden.origins, "random_page_cost": origin, "work_mem": origin}
        hidden = replace(hidden, origins=origins)
        for name in ("random_page_cost", "work_mem"):
            verdict = advised(name, hidden).to_dict()
            assert verdict["verdict"] == "unknown"
            assert "pg_file_settings" in str(verdict)
    # Nor does it take the memory of all sessions: 1 GB each would not fit.
    large = live({"work_mem": str(1 << 20)}, connections=Connections(200, seen=5))
    large = replace(large, origins={**large.origins, "work_mem": "database"})
    assert solve(large).holds
    assert answer("max_connections", large) == ("change", "203")


def test_a_volume_that_wal_can_fill_lowers_a_value_of_ones_own_and_is_the_reason() -> None:
    """100 GB on 150 GB: a tenth of the volume is room for WAL, with counters and without."""
    own = {"max_wal_size": str(100 * 1024)}
    each: tuple[dict[str, Any], ...] = ({}, {"wal": wal(0.1)})
    for facts in each:
        item = advised("max_wal_size", live(own, disk=Disk(Bytes(150 * GIB), None), **facts))
        assert item.to_dict()["verdict"] == "change"
        assert "limited by disk size" in item.reason
    web = live(own, disk=Disk(Bytes(150 * GIB), None), workload=Workload.WEB,
               memory=Memory(Bytes(16 * GIB)))  # fmt: skip
    assert "limited by disk size" in advised("max_wal_size", web).reason
    slow = advised("max_wal_size", live({"max_wal_size": "65536"}, rto=Rto(60.0), wal=wal(0.1)))
    assert slow.value == "2400MB"
    assert "--rto" in slow.reason


def test_large_segments_already_give_more_wal_buffers() -> None:
    """Automatic is a segment: 256 MB of it are not cut to 64."""
    many: dict[str, Any] = {"cpus": Cpus(32), "memory": Memory(Bytes(64 * GIB))}
    buffers = {"shared_buffers": str(16 * GIB // 8192)}
    assert advised("wal_buffers", live(buffers, **many)).value == "64MB"
    large = live(buffers | {"wal_segment_size": str(256 * MIB)}, **many)
    assert advised("wal_buffers", large).to_dict()["verdict"] == "keep"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_parallel_workers_per_gather", "0"), ("max_parallel_workers", "0"),
        ("max_parallel_maintenance_workers", "0"), ("effective_io_concurrency", "0"),
        ("checkpoint_timeout", "60"),
    ],
)  # fmt: skip
def test_what_a_person_switched_off_and_their_recovery_time_stay(name: str, value: str) -> None:
    assert advised(name, live({name: value})).to_dict()["verdict"] == "keep"
    assert advised(name, live()).to_dict()["verdict"] != "unknown"
