"""Every rule, by values worked out by hand, for a machine that is described.

The usual machine has 32 GB, 8 CPUs and an SSD, and runs OLTP with 200 connections on 18.
What a live server adds is in test_tune_rules_live.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import mrtuner

if TYPE_CHECKING:
    from mrtuner.tuning import Tuning

USUAL: dict[str, Any] = {
    "memory": "32GB",
    "cpus": 8,
    "storage": "ssd",
    "workload": "oltp",
    "connections": 200,
    "postgres": 18,
}


def machine(**changes: Any) -> Tuning:
    return mrtuner.tune(**(USUAL | changes))


@dataclass(frozen=True)
class Case:
    """A machine, and what its rule must answer; `words` are part of the reason."""

    verdict: str
    words: str
    value: str
    changes: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = ",".join(f"{name}={value}" for name, value in self.changes.items())
        return f"{self.verdict}-{self.value}{'-' if shown else ''}{shown}"


def change(value: str, words: str = "", **changes: Any) -> Case:
    return Case("change", words, value, changes)


def keep(value: str, words: str, **changes: Any) -> Case:
    return Case("keep", words, value, changes)


def unknown(flag: str, value: str, **changes: Any) -> Case:
    """`value` is the default, which stays."""
    return Case("unknown", f"needs {flag}", value, changes)


OLAP: dict[str, Any] = {"workload": "olap", "connections": 40}
DESKTOP: dict[str, Any] = {"workload": "desktop", "connections": 20}
SMALL: dict[str, Any] = {"memory": "1GB", "cpus": 1, "connections": 20}

CASES: dict[str, list[Case]] = {
    # --- sessions
    "max_connections": [
        change("200", "as asked for"),
        change("100", "as asked for", connections=100),  # the default, and said all the same
        change("40", "40 is usual for olap", workload="olap", connections=None),
        change("100", "100 is usual for mixed", workload="mixed", connections=None),
        change("20", "20 is usual for desktop", workload="desktop", connections=None),
        # 1 GB / 32 MB = 32, 512 MB / 32 MB = 16: fewer than the usual 200.
        change("32", memory="1GB", connections=None),
        change("16", memory="512MB", connections=None),
        unknown("--memory or --connections", "100", memory=None, connections=None),
    ],
    "statement_timeout": [
        change("1min", "runaway"),
        change("1min", "runaway", workload="web"),
        keep("0", "long statements are this workload's work", workload="mixed"),
        keep("0", "long statements are this workload's work", **OLAP),
    ],
    "idle_in_transaction_session_timeout": [
        change("10min", "dead rows"),
        change("10min", "dead rows", workload="mixed"),
        keep("0", "people leave sessions open", **OLAP),
        keep("0", "people leave sessions open", **DESKTOP),
    ],
    # --- memory
    "shared_buffers": [
        change("8GB", "a quarter"),  # 32 / 4
        change("8GB", "a quarter", workload="web"),
        change("8GB", "a quarter", workload="mixed"),
        # A small machine: 2048 MB * 2 / 5 = 819.2; from 6.4 GB on the quarter is more.
        change("819MB", "on a small machine", memory="2GB", connections=50),
        change("512MB", "a quarter", memory="2GB", connections=50, workload="mixed"),
        change("1638MB", memory="5GB", connections=50),
        # As far as the data fill it: 8 GB * 5 / 4 = 10 GB; 1 GB leaves the quarter; at most
        # 32768 MB * 2 / 5 = 13107.2 MB.
        change("10GB", "up to two fifths", data="8GB"),
        change("8GB", "a quarter", data="1GB"),
        change("13107MB", "up to two fifths", data="1TB"),
        change("2GB", "a sixteenth", **DESKTOP),  # 32 / 16
        # 512 MB / 4 is the default of 128 MB, and said all the same: it is what one asks for.
        change("128MB", "a quarter", memory="512MB", connections=10, workload="web"),
        # 1000 MB / 4 = 250 MB; 1001 MB / 4 = 250.25 MB, in whole MB.
        change("250MB", memory="1001MB", connections=10, workload="web"),
        unknown("--memory", "128MB", memory=None),
    ],
    "huge_pages": [
        keep("try", "starts without"),
    ],
    "effective_cache_size": [
        change("24GB", "kernel's cache"),  # 32 * 3 / 4
        change("16GB", "half", **DESKTOP),
        unknown("--memory", "4GB", memory=None),
    ],
    "temp_buffers": [
        keep("8MB", "set it there"),
    ],
    "vacuum_buffer_usage_limit": [
        change("2MB", "default of 17", postgres=16),
        keep("2MB", "default is fine", postgres=17),
    ],
    # --- parallel
    "max_parallel_workers": [
        keep("8", "already so"),  # 8 CPUs, and 8 is the default
        change("16", "one for each CPU", cpus=16),
        change("2", cpus=1),
        # A small container on a large host: 1 GB / 64 MB = 16.
        change("16", cpus=64, memory="1GB", connections=10),
        change("64", cpus=64, memory=None),
        unknown("--cpus", "8", cpus=None),
    ],
    "max_worker_processes": [
        change("12", "four for extensions"),  # 8 + 4
        keep("8", "already so", cpus=4),  # 4 + 4
        keep("8", "already so", cpus=1),
        change("68", cpus=64),
        unknown("--cpus", "8", cpus=None),
    ],
    "max_parallel_workers_per_gather": [
        keep("2", "already so"),  # least(2, 8 / 2)
        change("1", cpus=2),
        change("0", cpus=1),  # one CPU helps nobody
        change("4", "half the CPUs", **OLAP),  # 8 / 2
        change("16", "half the CPUs", cpus=64, **OLAP),  # 32, held at 16
        unknown("--cpus", "2", cpus=None),
    ],
    "max_parallel_maintenance_workers": [
        change("4", "four at most"),  # 8 / 2
        change("4", cpus=64),
        keep("2", "already so", cpus=4),
        change("1", cpus=1),  # never none
        unknown("--cpus", "2", cpus=None),
    ],
    "parallel_leader_participation": [
        keep("on", "worth having"),
    ],
    # --- vacuum
    "autovacuum_max_workers": [
        keep("3", "already so"),  # 8 / 8 = 1, three at least
        change("4", cpus=32),  # 32 / 8; 32 GB / 2 GB = 16 would allow it
        change("8", cpus=256, memory="256GB"),  # 32, held at 8
        keep("3", "already so", cpus=64, memory="4GB", connections=20),  # 4 GB / 2 GB = 2
        change("8", cpus=64, memory=None),
        unknown("--cpus", "3", cpus=None),
    ],
    "maintenance_work_mem": [
        change("1GB", "a sixteenth"),  # 32 / 16 = 2, held at 1
        change("256MB", memory="4GB", connections=50),  # 4 GB / 16
        change("2GB", **OLAP),  # 32 / 16, OLAP's cap is 4
        change("4GB", memory="256GB", **OLAP),
        keep("64MB", "already so", **SMALL),  # 1 GB / 16 is the default
        unknown("--memory", "64MB", memory=None),
    ],
    "autovacuum_work_mem": [
        change("256MB", "every worker may take it"),  # 32 GB / 64 = 512 MB, held at 256 since 17
        change("512MB", postgres=16),
        change("1GB", postgres=16, memory="128GB"),  # 2 GB, held at 1
        change("8MB", memory="512MB", connections=10),
        unknown("--memory", "-1", memory=None),
    ],
    "autovacuum_naptime": [
        keep("1min", "no gain"),
    ],
    "autovacuum_vacuum_cost_delay": [
        keep("2ms", "the limit is what to raise"),
    ],
    "autovacuum_vacuum_cost_limit": [
        change("1000", "five times"),
        change("1000", storage="nvme"),
        keep("-1", "leave I/O and CPU", cpus=7),
        keep("-1", "leave I/O and CPU", storage="ebs"),
        keep("-1", "leave I/O and CPU", storage="hdd"),
        unknown("--storage", "-1", storage=None),
        unknown("--cpus", "-1", cpus=None),
        unknown("--storage and --cpus", "-1", storage=None, cpus=None),
    ],
    "autovacuum_vacuum_scale_factor": [
        change("0.05", "a fifth of a large table", data="100GB"),
        keep("0.2", "no large table", data="99GB"),
        keep("0.2", "no large table", data="1TB", **OLAP),
        keep("0.2", "no large table"),
    ],
    "autovacuum_analyze_scale_factor": [
        change("0.05", "change its statistics", data="100GB"),
        keep("0.1", "soon enough", data="99GB"),
        keep("0.1", "soon enough"),
    ],
    "autovacuum_vacuum_insert_scale_factor": [
        change("0.05", "insert-only", data="100GB"),
        keep("0.2", "soon enough", data="99GB"),
        keep("0.2", "soon enough"),
    ],
    # --- wal
    "wal_buffers": [
        keep("-1", "automatic"),  # 8 GB / 32 is far above one segment
        # PostgreSQL takes a thirty-second: 256 MB / 32 = 8 MB, half a segment.
        change("16MB", "one segment", **SMALL),
        keep("-1", "automatic", memory="2GB", cpus=2, connections=20),  # 512 MB / 32 = 16 MB
        change("64MB", "many CPUs", cpus=32),
        keep("-1", "automatic", cpus=31),
        keep("-1", "automatic", cpus=32, memory="31GB"),
        keep("-1", "automatic", memory=None),
    ],
    "checkpoint_timeout": [
        change("15min", "full-page images"),
        change("30min", "full-page images", **OLAP),
        keep("5min", "recover at once", **DESKTOP),
    ],
    "checkpoint_completion_target": [
        change("0.9", "nine tenths", postgres=13),
        keep("0.9", "already so", postgres=14),
    ],
    "max_wal_size": [
        # greatest(least(4 * memory, usual), least(memory / 2, 64 GB))
        change("16GB", "usual for oltp"),  # greatest(16, 16)
        change("4GB", **SMALL),  # greatest(least(4, 16), 0.5)
        change("8GB", "usual for web", workload="web", memory="8GB", connections=50),
        change("2GB", workload="desktop", memory="4GB", connections=20),
        change("64GB", memory="256GB"),
        # The disk: a tenth of 50 GB is 5 GB; a tenth of 5 GB is too little, 1 GB is the least.
        change("5GB", "and the disk", disk="50GB"),
        keep("1GB", "already so", disk="5GB"),
        unknown("--memory", "1GB", memory=None),
    ],
    "min_wal_size": [
        change("4GB", "a quarter"),  # 16 GB / 4
        change("1280MB", disk="50GB"),  # 5 GB / 4
        change("256MB", memory=None),  # a quarter of the default that stays
    ],
    "wal_compression": [
        keep("off", "costs more CPU", postgres=14),
        keep("off", "lz4 only where a live server has it", postgres=15),
    ],
    "wal_level": [
        keep("replica", "replicas and archives"),
    ],
    "fsync": [
        keep("on", "durability is never lowered"),
    ],
    "full_page_writes": [
        keep("on", "durability is never lowered"),
    ],
    "synchronous_commit": [
        keep("on", "durability is never lowered"),
    ],
    "commit_delay": [
        keep("0", "share a flush"),
    ],
    # --- sorts
    "hash_mem_multiplier": [
        change("2", "default since 15", postgres=14),
        keep("2", "the budget counts it", postgres=15),
    ],
    "work_mem": [
        # Ceiling 0.9 * 32768 MB = 29491.2 MB, less
        #   shared memory: 8192 * 1.03 + 16 + (200 + 12) * 112 kB + 20 = 8496.95
        #   processes: (200 + 8 + 3 + 10) * 2.5                        =  552.5
        #   autovacuum: 3 * 256                                        =  768
        #   maintenance:                                                 1024
        # leaves 18649.75 MB for (200 + 8) * 2: 44.8 MB.
        change("44MB", "200 connections"),
        # Ceiling 921.6 less 256 * 1.03 + 16 + 28 * 112 kB + 20 = 302.74, 35 * 2.5 = 87.5,
        # 3 * 16 = 48 and 64 leaves 419.36 MB for (20 + 2) * 2: 9.53 MB, in steps of 64 kB.
        change("9728kB", workload="mixed", postgres=17, **SMALL),
        # Two operations at once: ceiling 58982.4 less 16384 * 1.03 + 16 + 60 * 112 kB + 20 =
        # 16918.08, 69 * 2.5 = 172.5, 3 * 256 = 768 and 4096 leaves 37027.8 for 56 * 2 * 2: 165.3.
        change("165MB", memory="64GB", cpus=16, **OLAP),
        # Plenty of room: a sixty-fourth of 4 GB, then the cap.
        change("64MB", memory="4GB", cpus=1, connections=10, workload="web"),
        # OLTP has 1638 MB of buffers there: 3686.4 less 1638 * 1.03 + 16 + 18 * 112 kB + 20 =
        # 1725.1, 25 * 2.5 = 62.5, 3 * 64 = 192 and 256 leaves 1450.8 for (10 + 2) * 2: 60.45.
        change("60MB", memory="4GB", cpus=1, connections=10),
        change("256MB", memory="256GB", connections=50),
        unknown("--memory", "4MB", memory=None),
    ],
    # --- storage
    "effective_io_concurrency": [
        change("128", "ssd"),
        change("2", "hdd", storage="hdd"),
        change("256", "nvme", storage="nvme"),
        change("128", "ebs", storage="ebs"),
        change("128", "network", storage="network"),
        change("64", "overlay", storage="overlay"),
        unknown("--storage", "16", storage=None),
    ],
    "maintenance_io_concurrency": [
        change("128", "recovery"),
        change("256", storage="nvme"),
        keep("16", "suits a disk", storage="hdd"),
        keep("10", "suits a disk", storage="hdd", postgres=17),
        unknown("--storage", "16", storage=None),
    ],
    "backend_flush_after": [
        change("256kB", "flood"),
        change("256kB", "flood", data="9GB"),  # a quarter of 32 GB is 8 GB
        keep("0", "fit shared buffers", data="8GB"),
        keep("0", "throughput", **OLAP),
        keep("0", "throughput", **DESKTOP),
    ],
    "io_method": [
        keep("worker", "starts everywhere"),
    ],
    "io_workers": [
        keep("3", "already so"),  # 8 / 4 = 2, three at least
        change("4", cpus=16),
        change("32", cpus=256),  # 64, held at 32
        unknown("--cpus", "3", cpus=None),
    ],
    "io_max_workers": [
        keep("8", "already so", postgres=19),  # 8 / 2 = 4, eight at least
        change("16", cpus=32, postgres=19),
        change("32", cpus=256, postgres=19),
        unknown("--cpus", "8", cpus=None, postgres=19),
    ],
    "io_min_workers": [
        keep("2", "the pool grows", postgres=19),
    ],
    "io_max_combine_limit": [
        change("256kB", **OLAP),
        keep("128kB", "small reads"),
    ],
    "io_combine_limit": [
        change("256kB", **OLAP),
        change("256kB", postgres=17, **OLAP),
        keep("128kB", "small reads"),
    ],
    "bgwriter_delay": [
        keep("200ms", "no gain"),
    ],
    "bgwriter_lru_maxpages": [
        keep("100", "nothing measured"),
    ],
    "bgwriter_lru_multiplier": [
        keep("2", "nothing measured"),
    ],
    # --- planner
    "seq_page_cost": [
        keep("1", "the unit"),
    ],
    "random_page_cost": [
        change("1.1", "ssd"),
        change("1.1", "network", storage="network"),
        keep("4", "must seek", storage="hdd"),
        # Three quarters of 32 GB are 24 GB.
        change("1.1", "fit in memory", storage="hdd", data="23GB"),
        keep("4", "must seek", storage="hdd", data="24GB"),
        change("1.1", "fit in memory", storage=None, data="23GB"),
        unknown("--storage", "4", storage=None, data="24GB"),
        unknown("--storage", "4", storage=None),
    ],
    "jit": [
        change("off", "a short query"),
        keep("on", "long queries may gain", **OLAP),
        keep("off", "already so", postgres=19),
    ],
    "default_statistics_target": [
        change("500", "finer histograms", **OLAP),
        keep("100", "raise single columns"),
    ],
    "default_toast_compression": [
        keep("pglz", "only where the build has it"),
        keep("pglz", "only where the build has it", postgres=14),
    ],
    # --- monitoring
    "track_io_timing": [
        unknown("the server's clocksource", "off"),
    ],
    "shared_preload_libraries": [
        change("pg_stat_statements", "which statements cost most"),
    ],
}

EACH = [
    pytest.param(name, case, id=f"{name}-{case}") for name, cases in CASES.items() for case in cases
]


@pytest.mark.parametrize(("name", "case"), EACH)
def test_a_rule_answers_as_worked_out_by_hand(name: str, case: Case) -> None:
    item = machine(**case.changes)[name]
    found = (item.to_dict()["verdict"], item.value)
    assert found == (case.verdict, case.value), item.reason
    assert case.words in item.reason


def test_every_rule_has_its_cases() -> None:
    from mrtuner.tuning.verdict import RULES

    assert set(CASES) == set(RULES)


def test_a_suggestion_is_shown_and_never_written() -> None:
    """Time-outs and libraries are for people to decide."""
    tuning = machine()
    suggested = {name for name, item in tuning.items() if item.suggested}
    assert suggested == {
        "statement_timeout",
        "idle_in_transaction_session_timeout",
        "shared_preload_libraries",
    }
    assert not suggested & {item.name for item in tuning.changes}
    assert not [name for name in suggested if name in tuning.as_conf()]


@pytest.mark.parametrize("major", range(13, 20))
def test_a_parameter_that_a_version_lacks_is_not_advised(major: int) -> None:
    """Source: release notes of 14, 16, 17, 18 and 19."""
    came = {
        "default_toast_compression": 14,
        "vacuum_buffer_usage_limit": 16,
        "io_combine_limit": 17,
        "io_method": 18,
        "io_max_combine_limit": 18,
        "io_max_workers": 19,
        "io_min_workers": 19,
    }
    absent = {name for name, since in came.items() if major < since}
    absent |= set() if major == 18 else {"io_workers"}  # 19 replaced it
    assert set(CASES) - set(machine(postgres=major)) == absent


def test_with_nothing_but_cpus_the_gaps_are_named_and_the_rest_is_advised() -> None:
    tuning = mrtuner.tune(cpus=4, postgres=18)
    assert tuning.budget is None
    gaps = {name for name, item in tuning.items() if item.to_dict()["verdict"] == "unknown"}
    assert gaps == {
        "max_connections",
        "shared_buffers",
        "effective_cache_size",
        "maintenance_work_mem",
        "autovacuum_work_mem",
        "autovacuum_vacuum_cost_limit",
        "max_wal_size",
        "work_mem",
        "effective_io_concurrency",
        "maintenance_io_concurrency",
        "random_page_cost",
        "track_io_timing",
    }
    assert not gaps & {item.name for item in tuning.changes}
    assert tuning["checkpoint_timeout"].value == "15min"


def test_a_version_nobody_named_is_eighteen() -> None:
    assert mrtuner.tune(memory="8GB").situation.major == 18
