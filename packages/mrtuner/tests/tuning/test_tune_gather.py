"""How flags, a machine and a server become one situation; all records are built by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mrtuner.errors import UsageError
from mrtuner.facts import Fact, Missing
from mrtuner.host.model import Host
from mrtuner.inputs import Storage
from mrtuner.postgres.model import Activity, Override, Platform, Relation, Server, Setting, Slru
from mrtuner.tuning import gather, tune_server
from mrtuner.tuning.advice import Input
from mrtuner.tuning.situation import (
    BufferWrites,
    DeadRows,
    Disk,
    Rto,
    Seen,
    Slrus,
    Spills,
    Throughput,
    Transactions,
    Wal,
    WalDisk,
)
from mrtuner.units import Bytes

if TYPE_CHECKING:
    from mrtuner.postgres.model import Origin
    from mrtuner.tuning.situation import Situation

MIB, GIB = 2**20, 2**30
HOUR = 3600.0

QUIET = Activity(
    window=HOUR,
    wal_bytes=None,
    checkpoints_timed=None,
    checkpoints_requested=None,
    temp_files=None,
    temp_bytes=None,
    commits=None,
    backend_writes=None,
    clean_stops=None,
)
OURS = Platform(
    name="self-managed", evidence="nothing shows", alter_system=True, how="ALTER SYSTEM"
)


def setting(name: str, text: str, unit: str | None = None, origin: Origin = "default") -> Setting:
    return Setting(
        name=name, setting=text, unit=unit, vartype="integer", context="user", boot_val=None,
        reset_val=None, enumvals=(), pending_restart=False,
        origin=origin, sourcefile=None, sourceline=None,
    )  # fmt: skip


def server(*settings: Setting, **changes: Any) -> Server:
    fields: dict[str, Any] = {
        "version_num": 180006, "version": "18.6", "settings": {s.name: s for s in settings},
        "overrides": (), "file_problems": (), "platform": OURS, "standby": False, "standbys": 0,
        "connections": 7, "databases": {}, "relations": (),
        "extensions": (), "activity": QUIET,
        "data_directory": None, "local_pid": None, "superuser": True,
    }  # fmt: skip
    return Server(**(fields | changes))


def host(**changes: Any) -> Host:
    fields: dict[str, Any] = {
        "memory": Fact(Bytes(16 * GIB), "/proc/meminfo: MemTotal"),
        "cpus": Fact(4, "cpuset"),
        "architecture": None, "kernel": None, "swap": None,
        "storage": Fact(Storage.NVME, "/sys/block"),
        "disk_size": Fact(Bytes(500 * GIB), "statvfs"),
        "disk_free": Fact(Bytes(40 * GIB), "statvfs"),
        "huge_pages": None,
        "clock": Fact("tsc", "/sys/devices"),
    }  # fmt: skip
    return Host(**(fields | changes))


def seen(of: Server) -> Situation:
    return gather.live(gather.Flags(), of, None).situation


# --- flags against facts


def test_every_input_is_told_with_its_source() -> None:
    gathered = gather.live(gather.flags(cpus=2), server(), host())
    assert [(item.name, item.value, item.source) for item in gathered.given] == [
        ("memory", "16 GB", "/proc/meminfo: MemTotal"),
        ("cpus", "2", "--cpus"),
        ("storage", "nvme", "/sys/block"),
        ("disk", "500 GB", "statvfs"),
        ("pg", "18", "server_version_num"),
        ("workload", "mixed", "assumed; change it with --workload"),
    ]


def test_a_flag_wins_and_the_contradiction_is_said() -> None:
    gathered = gather.this_machine(gather.flags(storage="hdd", disk="1TB"), host())
    assert gathered.situation.storage is Storage.HDD
    assert gathered.situation.disk == Disk(Bytes(1024 * GIB), Bytes(40 * GIB))
    assert [notice.text for notice in gathered.notices] == [
        "--storage is hdd, but /sys/block shows nvme",
        "--disk is 1 TB, but statvfs shows 500 GB",
    ]


def test_limits_of_a_control_group_are_what_the_volume_can_do() -> None:
    limited = host(
        volume_iops=Fact(3000, "cgroup v2 io.max of /pg"),
        volume_bandwidth=Fact(Bytes(125_000_000), "cgroup v2 io.max of /pg"),
    )
    gathered = gather.live(gather.flags(), server(), limited)
    assert gathered.situation.throughput == Throughput(3000, Bytes(125_000_000))
    assert [item for item in gathered.given if item.source.startswith("cgroup")] == [
        Input("iops", "3000", "cgroup v2 io.max of /pg"),
        Input("throughput", "119 MB", "cgroup v2 io.max of /pg"),
    ]
    only = host(volume_iops=Fact(3000, "cgroup v2 io.max of /pg"))
    assert gather.live(gather.flags(iops=500), server(), only).situation.throughput == (
        Throughput(500, None)
    )


def test_counts_are_not_told_as_sizes() -> None:
    gathered = gather.described(gather.flags(memory="64GB", iops=100_000, active=70_000))
    assert {item.name: item.value for item in gathered.given} == {
        "memory": "64 GB", "iops": "100000", "active": "70000", "pg": "18", "workload": "mixed",
    }  # fmt: skip


def test_a_flag_that_agrees_is_no_contradiction() -> None:
    assert gather.this_machine(gather.flags(memory="16GB", cpus=4), host()).notices == []


def test_less_memory_than_the_host_has_is_taken_and_said() -> None:
    gathered = gather.live(gather.flags(memory="4GB"), server(), host())
    assert gathered.situation.memory is not None
    assert gathered.situation.memory.size == 4 * GIB
    assert gathered.notices[0].text == "--memory is 4 GB, but /proc/meminfo: MemTotal shows 16 GB"


def test_more_memory_than_the_host_has_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        gather.live(gather.flags(memory="17GB"), server(), host())
    assert caught.value.message == (
        "--memory 17 GB is more than the 16 GB this host has (/proc/meminfo: MemTotal)"
    )
    assert caught.value.hint == "Give the memory that PostgreSQL can really use, or omit --memory."
    assert caught.value.exit_code == 2


def test_a_version_other_than_the_servers_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        gather.live(gather.flags(postgres=17), server(), None)
    assert caught.value.message == "the server is PostgreSQL 18.6, not 17"
    assert caught.value.hint == "Omit --pg: the server reports its version."
    assert gather.live(gather.flags(postgres=18), server(), None).situation.major == 18


def test_a_machine_out_of_sight_is_named_missing_with_its_flags() -> None:
    missing = gather.live(gather.Flags(), server(), None).missing
    assert [(gap.name, gap.supply) for gap in missing] == [
        ("memory", "--memory"),
        ("cpus", "--cpus"),
        ("storage", "--storage"),
        ("disk", "--disk"),
    ]
    assert {gap.why for gap in missing} == {"the server's machine is not visible from here"}
    told = gather.flags(memory="8GB", cpus=2, storage="ssd", disk="1TB")
    assert gather.live(told, server(), None).missing == []


def test_what_host_and_server_could_not_read_stays_named() -> None:
    gap, hole = Missing("swap", "unreadable"), Missing("sourcefile", "no permission")
    gathered = gather.live(gather.Flags(), server(missing=(hole,)), host(missing=(gap,)))
    assert gathered.missing == [gap, hole]


def test_a_full_disk_is_not_an_unknown_one() -> None:
    full = host(disk_size=None, disk_free=Fact(Bytes(0), "statvfs"))
    assert gather.this_machine(gather.Flags(), full).situation.disk == Disk(None, Bytes(0))
    unseen = host(disk_size=None, disk_free=None)
    assert gather.this_machine(gather.Flags(), unseen).situation.disk is None


@pytest.mark.parametrize(("workload", "share"), [("oltp", 0.9), ("desktop", 0.5)])
def test_a_desktop_keeps_half_of_its_memory_for_other_work(workload: str, share: float) -> None:
    assert gather.described(gather.flags(workload=workload)).situation.ceiling == share
    said = gather.flags(workload=workload, ceiling=0.7)
    assert gather.described(said).situation.ceiling == 0.7


# --- a server's values


def test_a_servers_values_origins_and_build_are_taken_over() -> None:
    compression = replace(setting("wal_compression", "off"), enumvals=("pglz", "on", "off"))
    situation = seen(server(setting("work_mem", "8192", "kB", "postgresql.auto.conf"), compression))
    assert situation.live
    assert situation.running == {"work_mem": "8192", "wal_compression": "off"}
    assert situation.origins["work_mem"] == "postgresql.auto.conf"
    assert situation.enum_values == {"wal_compression": ("pglz", "on", "off")}


def test_the_command_line_fixes_a_value() -> None:
    fixed = seen(server(setting("work_mem", "8192", "kB", "command line"))).fixed
    assert fixed == {"work_mem": "set on the server's command line: change it there"}


def test_a_standby_fixes_what_must_not_be_below_its_primary() -> None:
    """Source: documentation, Hot Standby, Administrator's Overview."""
    assert set(seen(server(standby=True)).fixed) == {
        "max_connections",
        "max_worker_processes",
        "max_wal_senders",
        "max_prepared_transactions",
        "max_locks_per_transaction",
    }


def test_the_databases_are_added_up() -> None:
    situation = seen(server(databases={"shop": Bytes(3 * GIB), "postgres": Bytes(GIB)}))
    assert situation.data is not None
    assert situation.data.size == 4 * GIB
    assert seen(server()).data is None


# --- a server's counters


#: Checkpoints enough for a window that counts.
SOME: dict[str, Any] = {"checkpoints_timed": 3, "checkpoints_requested": 0}


def active(**counters: Any) -> Situation:
    return seen(server(activity=replace(QUIET, **(SOME | counters))))


def test_wal_and_checkpoints_become_a_rate() -> None:
    """36 GB in ten hours are 1.024 MiB/s; the peak is taken as three times that."""
    wal = active(
        window=10 * HOUR, wal_bytes=36 * GIB, checkpoints_timed=100, checkpoints_requested=4
    ).wal
    assert wal == Wal(10 * HOUR, Bytes(36 * GIB), timed=100, requested=4)
    assert wal.peak_rate == pytest.approx(3 * 1.024 * MIB)


def test_a_watched_window_is_the_peak_itself() -> None:
    busy = replace(
        QUIET, window=60.0, wal_bytes=Bytes(60 * MIB), checkpoints_timed=0, checkpoints_requested=0
    )
    of = server(activity=busy)
    averaged = gather.live(gather.Flags(), of, None).situation.wal
    watched = gather.live(gather.Flags(seen=Seen.WATCHED), of, None).situation.wal
    assert averaged is None, "a minute since the last reset shows nothing"
    assert watched is not None
    assert watched.peak_rate == pytest.approx(MIB)


def test_how_long_transactions_take_is_believed_of_a_watched_load_alone() -> None:
    """6 s in 1,500 transactions are 4 ms; 999 are too few."""
    busy = replace(QUIET, window=60.0, active_ms=6000, commits=1500)
    of = server(activity=busy)
    watched = gather.Flags(seen=Seen.WATCHED)
    assert gather.live(gather.Flags(), of, None).situation.transactions is None
    assert gather.live(watched, of, None).situation.transactions == Transactions(0.004)
    for few in (replace(busy, commits=999), replace(busy, commits=None)):
        assert gather.live(watched, server(activity=few), None).situation.transactions is None


@pytest.mark.parametrize(
    "gap",
    [
        {"wal_bytes": None},
        {"checkpoints_timed": None},
        {"checkpoints_requested": None},
        {"window": 0.0},
    ],
    ids=str,
)
def test_wal_without_one_of_its_counters_is_unknown(gap: dict[str, Any]) -> None:
    whole = {"wal_bytes": GIB, "checkpoints_timed": 10, "checkpoints_requested": 1}
    assert active(**(whole | gap)).wal is None


def test_temporary_files_are_taken_over() -> None:
    assert active(temp_files=3, temp_bytes=GIB).spills == Spills(HOUR, 3, Bytes(GIB))
    assert active(temp_files=None, temp_bytes=GIB).spills is None


def test_the_background_writers_stops_are_taken_over() -> None:
    assert active(clean_stops=9, backend_writes=5).buffer_writes == BufferWrites(5, 9, HOUR)
    assert active(clean_stops=9).buffer_writes == BufferWrites(0, 9, HOUR)
    assert active(backend_writes=5).buffer_writes is None


def table(name: str, rows: int, dead: int, *options: str) -> Relation:
    return Relation(
        database="shop", schema="public", name=name, size=Bytes(GIB), live_rows=rows,
        dead_rows=dead, written=rows, rows=rows, options=options,
    )  # fmt: skip


def test_dead_rows_are_compared_with_each_tables_own_threshold() -> None:
    """By hand: 50 + a fifth of 2,000,000 rows are 400,050 dead rows; at 1.5 times it is late."""
    usual = table("usual", 2_000_000, 600_000)  # 1.4998 times
    late = table("late", 2_000_000, 800_100)  # exactly twice
    assert seen(server(relations=(usual,))).dead_rows is None
    assert seen(server(relations=(late, usual))).dead_rows == DeadRows("public.late", 2.0, 1)


def test_a_tables_own_storage_parameters_count() -> None:
    """By hand: 1,000 + a hundredth of 2,000,000 rows are 21,000: 105,000 are five times that."""
    own = ("autovacuum_vacuum_threshold=1000", "autovacuum_vacuum_scale_factor=0.01")
    strict = table("strict", 2_000_000, 105_000, *own)
    lenient = table("lenient", 2_000_000, 800_100, "autovacuum_vacuum_scale_factor=0.4")
    off = table("off", 2_000_000, 2_000_000, "autovacuum_enabled=false")
    relations = (lenient, strict, off)
    assert seen(server(relations=relations)).dead_rows == DeadRows("public.strict", 5.0, 1)


def test_the_servers_threshold_counts_and_since_18_its_maximum() -> None:
    """By hand: a tenth of 2,000,000 and 50 are 200,050; 100,000 at most since 18."""
    tenth = replace(setting("autovacuum_vacuum_scale_factor", "0.1"), vartype="real")
    most = setting("autovacuum_vacuum_max_threshold", "100000")
    late = table("late", 2_000_000, 400_100)
    assert seen(server(tenth, relations=(late,))).dead_rows == DeadRows("public.late", 2.0, 1)
    assert seen(server(tenth, most, relations=(late,))).dead_rows == DeadRows(
        "public.late", 4.001, 1
    )


def test_small_tables_are_no_matter_for_settings_of_the_server() -> None:
    small = table("sessions", 10, 900_000)
    assert seen(server(relations=(small,))).dead_rows is None


def test_reads_of_caches_are_told_where_they_have_a_parameter() -> None:
    """By hand: 7,200 reads in an hour are 2 a second, and a tenth of 72,000 accesses."""
    read = Slru(name="subtransaction", hits=64_800, reads=7_200, seconds=HOUR)
    old = Slru(name="Subtrans", hits=0, reads=99, seconds=HOUR)
    known = setting("subtransaction_buffers", "32", "8kB")
    name = "subtransaction_buffers"
    hour = replace(QUIET, **SOME)
    found = seen(server(known, slrus=(read, old), activity=hour)).slrus
    assert found == Slrus({name: 2.0}, {name: 0.1})
    assert seen(server(slrus=(old,), activity=hour)).slrus is None


# --- the whole answer, from records


def test_memory_that_nobody_knows_leaves_its_settings_unknown_and_says_so() -> None:
    settings = [setting("max_connections", "100"), setting("shared_buffers", "16384", "8kB")]
    tuning = tune_server(server(*settings))
    assert tuning["shared_buffers"].reason == "needs --memory"
    assert not tuning["shared_buffers"].changes
    assert tuning.budget is None
    assert "--memory" in {gap.supply for gap in tuning.missing}


def test_overrides_are_said_with_who_has_them() -> None:
    overrides = (
        Override(role="app", database=None, name="work_mem", value="1GB"),
        Override(role="app", database="shop", name="jit", value="off"),
        Override(role=None, database="shop", name="jit", value="on"),
        Override(role=None, database=None, name="work_mem", value="2GB"),  # ALTER ROLE ALL
    )
    texts = [notice.text for notice in tune_server(server(overrides=overrides)).notices]
    assert "role app sets work_mem = 1GB, which overrides the advised value" in texts
    assert "role app and database shop sets jit = off, which overrides the advised value" in texts
    assert "every role sets work_mem = 2GB, which overrides the advised value" in texts
    assert "database shop sets jit = on, which overrides the advised value" in texts


def test_an_override_of_what_we_do_not_advise_is_not_repeated() -> None:
    """Applications keep their own data in settings, even secrets."""
    overrides = (Override(role="app", database=None, name="app.api_key", value="s3cret"),)
    assert "s3cret" not in tune_server(server(overrides=overrides)).as_("json")


def test_a_managed_platform_is_named_with_the_way_to_change_settings() -> None:
    rds = Platform(name="rds", evidence="role rdsadmin", alter_system=False, how="Use a group.")
    texts = [notice.text for notice in tune_server(server(platform=rds)).notices]
    assert texts[1:3] == ["platform: rds (role rdsadmin)", "Use a group."]


def test_pg_wal_on_its_own_volume_is_a_fact_of_its_own() -> None:
    """Found on the host, overridden by the flag; the data's volume stays the same."""
    apart = host(
        wal_size=Fact(Bytes(20 * GIB), "statvfs /wal: f_blocks"),
        wal_free=Fact(Bytes(12 * GIB), "statvfs /wal: f_bavail"),
    )
    found = gather.live(gather.Flags(), server(), apart).situation
    assert found.wal_disk == WalDisk(Bytes(20 * GIB), Bytes(12 * GIB))
    assert found.disk == Disk(Bytes(500 * GIB), Bytes(40 * GIB))
    said = gather.described(gather.flags(memory="8GB", wal_disk="50GB"))
    assert said.situation.wal_disk == WalDisk(Bytes(50 * GIB), None)
    assert [(one.name, one.source) for one in said.given if one.name == "wal-disk"] == [
        ("wal-disk", "--wal-disk")
    ]


def test_pg_wal_that_may_lie_elsewhere_is_a_volume_without_figures() -> None:
    unseen = host(missing=(Missing("wal-disk", "closed to this user", "--wal-disk"),))
    assert gather.live(gather.Flags(), server(), unseen).situation.wal_disk == WalDisk(None, None)
    assert gather.live(gather.Flags(), server(), host()).situation.wal_disk is None


def test_what_the_volume_can_do_and_the_recovery_allowed_are_facts() -> None:
    said = gather.flags(memory="8GB", iops=3000, throughput="125MB/s", rto="1.5min")
    situation = gather.described(said).situation
    assert situation.throughput == Throughput(3000, Bytes(125 * MIB))
    assert situation.rto == Rto(90.0)
    assert gather.described(gather.flags(memory="8GB")).situation.throughput is None
