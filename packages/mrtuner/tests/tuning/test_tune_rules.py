"""Every rule, by values worked out by hand, for described machines.

The usual machine has 32 GB, 8 CPUs and an SSD, and runs OLTP with 200 connections on 18.
What a live server adds is in test_tune_rules_live.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import mrtuner
from mrtuner.formats import parse
from mrtuner.units import parse_duration

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
    """The usual machine, with changes."""
    return mrtuner.tune(**(USUAL | changes))


@dataclass(frozen=True)
class Case:
    """A machine, and what the rule must answer; `words` are part of the reason."""

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
FEW_REQUESTS: dict[str, Any] = {"iops": 3000, "connections": 27}
SMALL: dict[str, Any] = {"memory": "1GB", "cpus": 1, "connections": 20}

CASES: dict[str, list[Case]] = {
    # --- sessions
    "max_connections": [
        # The sessions asked for are those of applications; 3 more are for superusers.
        change("203", "200 for applications, and 3 that the server reserves"),
        change("4", "1 for applications", connections=1),
        keep("100", "97 for applications", connections=97),
        change("40", "40 is usual for olap", workload="olap", connections=None),
        keep("100", "100 is usual for mixed", workload="mixed", connections=None),
        change("20", "20 is usual for desktop", workload="desktop", connections=None),
        # 1 GB / 32 MB = 32, fewer than the usual 200.
        change("32", "32 MB", memory="1GB", workload="web", connections=None),
        # In MB: 921.6 less 409 * 1.03 + 16 + 32 * 0.11 + 20, 3 * 16, 64 and 16 leave 332. Less 30
        # processes of 2.5 and 40 page tables of 0.9, 24 sessions and 3 workers have 2 * 4.1 each;
        # 25 sessions would have 2 * 3.9. The third worker: with two, 225 are left, less 26 * 0.5
        # 212, and an eighth is 26.
        change("24", "as many as leave each 4 MB", memory="1GB", connections=None),
        # 460.8 less 204 * 1.03 + 6.4 + 18 * 0.11 + 20, 3 * 8, 32 and 16: 150. Less 15 * 2.5 and
        # 25 * 0.47, 10 sessions and 2 workers have 2 * 4.2; 20 would have 2 * 1.6.
        change("10", "at least 10", memory="512MB", connections=None),
        unknown("--memory or --connections", "100", memory=None, connections=None),
    ],
    "statement_timeout": [
        change("1min", "runaway"),
        change("1min", "runaway", workload="web"),
        keep("0", "long statements are normal for this workload", workload="mixed"),
        keep("0", "long statements are normal for this workload", **OLAP),
    ],
    "idle_in_transaction_session_timeout": [
        change("2min", "dead rows"),
        change("2min", "dead rows", workload="web"),
        change("10min", "dead rows", workload="mixed"),
        keep("0", "often left open", **OLAP),
        keep("0", "often left open", **DESKTOP),
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
        # As much as the data fill: 8 GB * 5 / 4 = 10 GB; 1 GB leaves the quarter; at most
        # 32768 MB * 2 / 5 = 13107.2 MB.
        change("10GB", "up to two fifths", data="8GB"),
        change("8GB", "a quarter", data="1GB"),
        change("13107MB", "up to two fifths", data="1TB"),
        # Few requests, more data: 0.9 * 2048 * 4 / 5 - 64 - 30 * (2.5 + 8) = 1095.6 MB for buffers
        # and 30 / 512 of them; five eighths of 4 GB; 1 GB leaves less than two fifths.
        change("1034MB", "up to five eighths", memory="2GB", data="6GB", **FEW_REQUESTS),
        change(
            "2560MB",
            "up to five eighths",
            memory="4GB",
            data="6GB",
            **FEW_REQUESTS | {"connections": 17},
        ),
        change("409MB", "up to two fifths", memory="1GB", data="6GB", **FEW_REQUESTS),
        change(
            "819MB", "up to two fifths", memory="2GB", data="6GB", **FEW_REQUESTS | {"iops": 16_000}
        ),
        change("819MB", "up to two fifths", memory="2GB", data="2GB", **FEW_REQUESTS),
        change("819MB", "on a small machine", memory="2GB", **FEW_REQUESTS),
        change("512MB", "a quarter", memory="2GB", data="6GB", workload="mixed", **FEW_REQUESTS),
        change("8GB", "a quarter", data="64GB", workload="mixed", **FEW_REQUESTS),
        change("2GB", "a sixteenth", **DESKTOP),  # 32 / 16
        # 512 MB / 4 is the default of 128 MB: nothing to change.
        keep("128MB", "a quarter", memory="512MB", connections=10, workload="web"),
        # Three fifths of 262144 MB less 2003 * 2.5 leave 152278.9 MB for buffers and 2003 / 512
        # of them: / 4.912 = 31000.7. With huge pages a quarter fits.
        change("31000MB", "page tables", memory="256GB", cpus=64, connections=2000),
        change("64GB", "a quarter", memory="256GB", cpus=64, connections=2000, huge_pages=True),
        # 0.6 * 4096 - 503 * 2.5 = 1200.1; / (1 + 503 / 512) = 605.4.
        change("605MB", "page tables", memory="4GB", cpus=2, connections=500, workload="web"),
        # 0.6 * 4096 - 603 * 2.5 = 950.1, whatever the page size.
        change(
            "950MB",
            "processes of 603 sessions",
            memory="4GB",
            cpus=2,
            connections=600,
            workload="web",
            huge_pages=True,
        ),
        # (0.6 * 32768 - 2003 * 2.5) / (1 + 2003 / 512) = 2983.1.
        change("2983MB", "page tables", connections=2000),
        # (157286.4 - 9003 * 2.5) / (1 + 9003 / 512) = 7252: never below an eighth of a quarter.
        change("8GB", "page tables", memory="256GB", cpus=64, connections=9000, active=500),
        # 1000 MB / 4 = 250 MB; 1001 MB / 4 = 250.25 MB, in whole MB.
        change("250MB", memory="1001MB", connections=10, workload="web"),
        unknown("--memory", "128MB", memory=None),
    ],
    "huge_pages": [
        keep("try", "starts without"),
    ],
    "effective_cache_size": [
        change("24GB", "three quarters; 16 active sessions"),  # 32 * 3 / 4; 2 * 8 CPUs
        # 2,000 sessions (see work_mem): ceiling 29491.2 and buffers 2983.1, less shared memory
        # 3328.99, processes 5051, autovacuum 768, and for 16 active sessions and 8 workers sorts
        # 24 * 1.53 * 2 and page tables (24 + 10) / 512 * 3328.99: 23031.7.
        change("23031MB", "16 active sessions", connections=2000),
        # Ceiling 16384 and buffers 2048, less shared memory 2048 * 1.03 + 16 + 35 * 112 kB + 20 =
        # 2149.27, processes 34 * 2.5 + 16 = 101, autovacuum 768, and for 4 active sessions and 8
        # workers sorts 12 * 8 * 2 and page tables 22 / 512 * 2149.27: 15129.4.
        change("15129MB", "4 active sessions", **DESKTOP),
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
        keep("8", "already set"),  # 8 CPUs, and 8 is the default
        change("16", "one per CPU", cpus=16),
        change("2", "at least two", cpus=1),
        # A small container on a large host, in MB: 921.6 less 409 * 1.03 + 16 + 21 * 0.11 + 20,
        # 3 * 16, 64 and 16, then 18 * 2.5 and 28 * 0.9: 264. Less 15 * 0.5, an eighth is
        # 32: one worker of 2.5 + 0.9 + 16 beside two, which are the least.
        change("3", "budget spares", cpus=64, memory="1GB", connections=10),
        change("64", cpus=64, memory=None),
        unknown("--cpus", "8", cpus=None),
    ],
    "max_worker_processes": [
        change("12", "four for extensions"),  # 8 + 4
        keep("8", "already set", cpus=4),  # 4 + 4
        keep("8", "already set", cpus=1),
        change("68", cpus=64, memory="64GB"),
        unknown("--cpus", "8", cpus=None),
    ],
    "max_parallel_workers_per_gather": [
        keep("2", "already set"),  # least(2, 8 / 2)
        change("1", cpus=2),
        change("0", cpus=1),  # parallel workers do not help on one CPU
        change("4", "half the CPUs", **OLAP),  # 8 / 2
        change("16", "half the CPUs, at most 16", cpus=64, **OLAP),  # 32, held at 16
        unknown("--cpus", "2", cpus=None),
    ],
    "max_parallel_maintenance_workers": [
        change("4", "at most four"),  # 8 / 2
        change("4", cpus=64),
        keep("2", "already set", cpus=4),
        change("1", "at least one", cpus=1),
        unknown("--cpus", "2", cpus=None),
    ],
    "parallel_leader_participation": [
        keep("on", "helps too"),
    ],
    # --- vacuum
    "autovacuum_max_workers": [
        keep("3", "already set"),  # 8 / 8 = 1, three at least
        change("4", cpus=32),  # 32 / 8; 32 GB / 2 GB = 16 would allow it
        change("8", "from 3 to 8", cpus=256, memory="256GB"),  # 32, held at 8
        change("5", "per 2 GB of memory", cpus=64, memory="10GB", connections=20),
        keep("3", "already set", cpus=64, memory="4GB", connections=20),  # 4 GB / 2 GB = 2
        change("8", cpus=64, memory=None),
        unknown("--cpus", "3", cpus=None),
    ],
    "maintenance_work_mem": [
        change("1GB", "a sixteenth"),  # 32 / 16 = 2, held at 1
        change("256MB", memory="4GB", connections=50),  # 4 GB / 16
        change("2GB", **OLAP),  # 32 / 16, OLAP's cap is 4
        change("4GB", memory="256GB", **OLAP),
        keep("64MB", "already set", **SMALL),  # 1 GB / 16 is the default
        unknown("--memory", "64MB", memory=None),
    ],
    "autovacuum_work_mem": [
        change("256MB", "every worker may use it"),  # 32 GB / 64 = 512 MB, held at 256 since 17
        change("512MB", postgres=16),
        change("1GB", postgres=16, memory="128GB"),  # 2 GB, held at 1
        change("8MB", memory="512MB", connections=10),
        unknown("--memory", "-1", memory=None),
    ],
    "autovacuum_naptime": [
        keep("1min", "no gain"),
    ],
    "autovacuum_vacuum_cost_delay": [
        keep("2ms", "raise the limit"),
    ],
    "autovacuum_vacuum_cost_limit": [
        # What the volume bears is unknown, whatever its kind.
        keep("-1", "--iops"),
        keep("-1", "--iops", storage="nvme", cpus=16),
        keep("-1", "--iops", storage="hdd"),
        keep("-1", "--iops", storage="ebs", memory="256GB"),
        keep("-1", "--iops", storage=None, cpus=None),
        # 32 CPUs have 4 workers, 64 with 128 GB have 8: 200 * 4 / 3 = 266.7, 200 * 8 / 3 = 533.3.
        change("267", "4 workers share it", storage="hdd", cpus=32),
        change("534", "8 workers share it", storage="network", cpus=64, memory="128GB"),
        change("267", "4 workers share it", storage=None, cpus=32),
        # Half of 64,000 IOPS is 16,000 pages a second, read and dirtied: 22 each, 500 rounds.
        change("704", "half of what the volume", storage="ebs", iops=64_000),
        keep("-1", "leave I/O and CPU", storage="ebs", iops=3000),  # 33: never below 200
        # 500 MiB/s are 64,000 times 8 kB.
        change("704", "half of what the volume", storage="ebs", throughput="500MB"),
    ],
    "autovacuum_vacuum_scale_factor": [
        change("0.05", "a fifth of a large table", data="100GB"),
        keep("0.2", "no large table", data="99GB"),
        keep("0.2", "no large table", data="1TB", **OLAP),
        keep("0.2", "no large table"),
    ],
    "autovacuum_analyze_scale_factor": [
        change("0.05", "can be out of date", data="100GB"),
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
        keep("-1", "too little memory", memory="511MB", cpus=1, connections=5),
    ],
    "checkpoint_timeout": [
        change("15min", "full-page images"),
        change("30min", "full-page images", **OLAP),
        keep("5min", "recover at once", **DESKTOP),
    ],
    "checkpoint_completion_target": [
        change("0.9", "nine tenths", postgres=13),
        keep("0.9", "already set", postgres=14),
    ],
    "max_wal_size": [
        # The disk is unknown: 4 GB at most.
        change("4GB", "--disk"),
        change("4GB", memory="256GB"),
        change("2GB", memory="512MB", cpus=1, connections=10),  # greatest(least(2, 16), 0.25)
        # greatest(least(4 * memory, usual), least(memory / 2, 64 GB)), on 1 TB
        change("16GB", "usual for oltp", disk="1TB"),  # greatest(16, 16)
        change("4GB", disk="1TB", **SMALL),  # greatest(least(4, 16), 0.5)
        change("8GB", "usual for web", workload="web", memory="8GB", connections=50, disk="1TB"),
        change("2GB", workload="desktop", memory="4GB", connections=20, disk="1TB"),
        # Half of memory, but ten minutes at 40 MiB/s replay 24,000 MiB; at 3,000 * 8 kB, 14,062.
        change("24000MB", "10 min can replay: give --rto", memory="256GB", disk="1TB"),
        change("14062MB", "10 min", memory="256GB", disk="1TB", iops=3000),
        # The disk: a tenth of 50 GB is 5 GB; a tenth of 5 GB is too little, 1 GB is the least.
        change("5GB", "disk size", disk="50GB"),
        keep("1GB", "already set", disk="5GB"),
        change("256MB", "disk size", disk="1GB"),  # a quarter, since 1 GB would fill it
        change("128MB", "disk size", disk="256MB"),  # eight segments are the least
        # A hard disk takes longer whatever the size: without --rto it is as any other volume. With
        # it, 150 * 8 kB a second replay 703 MB in ten minutes, and 1 GB is the least.
        change("24000MB", "10 min", memory="256GB", storage="hdd", disk="1TB"),
        keep("1GB", "150 IOPS", memory="256GB", storage="hdd", disk="1TB", rto="10min"),
        # WAL's own volume: half of it.
        change("10GB", "own volume", disk="5GB", wal_disk="20GB"),
        change("512MB", "own volume", disk="1TB", wal_disk="1GB"),
        # 40 MB/s at worst; 3,000 * 8 kB are 23.4 MiB/s.
        change("2400MB", "--rto", disk="1TB", rto="60s"),
        change("1406MB", "--rto", disk="1TB", rto="60s", iops=3000),
        # Less than the default of 1 GB costs checkpoints, and no gain was measured.
        keep("1GB", "--rto", disk="1TB", rto="1s"),
        unknown("--memory", "1GB", memory=None),
    ],
    "min_wal_size": [
        change("1GB", "a quarter"),  # 4 GB / 4
        change("4GB", "a quarter", disk="1TB"),  # 16 GB / 4
        change("1280MB", disk="50GB"),  # 5 GB / 4
        change("256MB", memory=None),  # a quarter of the default, which stays
    ],
    "wal_compression": [
        keep("off", "costs more CPU", postgres=14),
        keep("off", "lz4 only if the build has it", postgres=15),
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
        # One and a half requests take 1.5 / 3000 s; at 500 a second it would be 3 ms.
        change("500", "3,000 requests a second", iops=3000),
        change("250", iops=6000),
        change("1500", iops=1000),
        change("2000", iops=500),
        change("500", iops=3000, workload="web"),
        keep("0", "one of many", iops=6001),
        keep("0", "few sessions commit", iops=3000, **OLAP),
        keep("0", "few sessions commit", iops=3000, **DESKTOP),
        keep("0", "a volume of its own", iops=3000, wal_disk="100GB"),
        # The default of commit_siblings is 5 others.
        keep("0", "below 6 sessions", iops=3000, connections=5),
        keep("0", "below 6 sessions", iops=3000, active=4),
        change("500", iops=3000, connections=6),
    ],
    # --- sorts
    "hash_mem_multiplier": [
        keep("2", "spill"),
        keep("1", "spill", postgres=14),
    ],
    "work_mem": [
        change("8MB", "one merge pass"),
        # Ceiling 0.9 * 32768 MB = 29491.2 MB, less
        # shared_buffers are 2983.1 MB then (above); less
        #   shared memory: 2983.1 * 1.03 + 16 + (2003 + 12) * 112 kB + 20 =  3328.99
        #   page tables: (2003 + 8 + 3 + 10) / 512 * 3328.99              = 13159.9
        #   processes: (2003 + 8 + 3) * 2.5 + 16                          =  5051
        #   autovacuum: 3 * 256                                           =   768
        #   maintenance:                                                     1024
        # leaves 6159.3 MB for 2003 + 8 hashes of twice work_mem: 1.531 MB, in steps of 64 kB.
        change("1536kB", "2003 connections", connections=2000),
        # Of 2,000, 1,000 active: 6159.3 / (1000 + 8) / 2 = 3.055; 100 get what is enough.
        change("3MB", "1000 active sessions", connections=2000, active=1000),
        change("8MB", "one merge pass", connections=2000, active=100),
        # With huge pages 8192 MB of buffers: 8694.15, 5051, 768 and 1024 leave 13954.05: 3.469 MB.
        change("3520kB", "2003 connections", connections=2000, huge_pages=True),
        # 921.6 MB less shared memory 256 * 1.03 + 16 + 31 * 112 kB + 20 = 303.07, page tables
        # 38 / 512 of it, processes 28 * 2.5 + 16, autovacuum 3 * 16 and maintenance 64 leave 398.04
        # for 23 + 2 hashes of twice work_mem: 7.96 MB.
        change("8128kB", workload="mixed", postgres=17, **SMALL),
        # A thousandth of memory for large queries; with known data one merge pass for all of it:
        # sqrt(2048 MB * 0.265625 MB) = 23.3 MB; 64 MB at most.
        change("32MB", **OLAP),
        change("64MB", memory="96GB", cpus=16, **OLAP),
        # Beyond that half of what is left: 117964.8 MB less shared memory 32768 * 1.03 + 16 +
        # (43 + 20) * 112 kB + 20 = 33793.5, page tables 72 / 512 of it = 4752.2, processes 62 * 2.5
        # + 16, autovacuum 3 * 256 and maintenance 4096 = 74384.1, for (43 + 16) * 2 operations of
        # twice work_mem: 315.2 / 2 = 157.6 MB.
        change("157MB", "temporary files would not stay", memory="128GB", cpus=16, **OLAP),
        # 471859.2 MB less 131072 * 1.03 + 64 + (43 + 68) * 112 kB + 20 = 135100.3, 138 / 512 of it
        # (16 I/O workers are 13 more), 336, 8 * 256 and 4096 = 293864.9, for (8 + 64) * 2 of twice:
        # 1020.4 / 2 = 510.2 MB.
        change("510MB", memory="512GB", cpus=64, active=8, **OLAP),
        # One pass for all data again: sqrt(512000 MB * 0.265625 MB) = 368.8 MB.
        change("369MB", "one merge pass", memory="512GB", cpus=64, active=8, data="500GB", **OLAP),
        change("64MB", memory="96GB", cpus=16, data="48GB", **OLAP),
        # More data than memory: 64 MB, where one merge pass would take sqrt(8192 MB * 0.265625 MB)
        # = 46.6 MB. 3686.4 MB less 1024 * 1.03 + 16 + (13 + 10) * 112 kB + 20 = 1093.2, 28 / 512 of
        # it, 18 * 2.5 + 16, 3 * 64 and 256 = 2024.4, for (2 + 2) * 2 of twice: half is 63.3 MB.
        change(
            "64MB",
            "would not stay in the cache",
            memory="4GB",
            cpus=2,
            connections=10,
            workload="olap",
            active=2,
            data="8GB",
        ),
        change("24MB", memory="128GB", cpus=16, data="2GB", **OLAP),
        change("32MB", workload="mixed"),
        change("8MB", memory="256GB", connections=50),
        unknown("--memory", "4MB", memory=None),
    ],
    # --- storage
    "effective_io_concurrency": [
        # Since 18 a process has 64 requests in flight at most.
        change("64", "at most 64 per process"),
        change("64", storage="nvme"),
        change("64", "overlay", storage="overlay"),
        change("128", "ssd", postgres=17),
        change("256", "nvme", storage="nvme", postgres=17),
        change("128", "ebs", storage="ebs", postgres=17),
        change("128", "network", storage="network", postgres=17),
        # A hard disk is not lowered, nor raised: 16 since 18, 1 before.
        keep("16", "few heads", storage="hdd"),
        keep("1", "few heads", storage="hdd", postgres=17),
        # Documentation of 17: where posix_fadvise is missing, anything but 0 is an error.
        keep("1", "macOS and Windows", postgres=17, **DESKTOP),
        change("64", "at most 64 per process", **DESKTOP),
        unknown("--storage", "16", storage=None),
    ],
    "maintenance_io_concurrency": [
        change("64", "recovery"),
        change("128", "recovery", postgres=17),
        change("256", storage="nvme", postgres=17),
        keep("16", "few heads", storage="hdd"),
        keep("10", "few heads", storage="hdd", postgres=17),
        keep("10", "macOS and Windows", postgres=17, **DESKTOP),
        unknown("--storage", "16", storage=None),
    ],
    "backend_flush_after": [
        # Where its effect was seen: network volumes, and machines up to 4 GB.
        change("256kB", "network volume", storage="ebs"),
        change("256kB", "network volume", storage="network", data="9GB"),  # 32 GB / 4 = 8 GB
        change("256kB", "small machine", memory="4GB", connections=20),
        keep("0", "dirty_background_bytes"),
        keep("0", "dirty_background_bytes", storage="nvme"),
        keep("0", "fit shared buffers", storage="ebs", data="8GB"),
        keep("0", "throughput", **OLAP),
        keep("0", "throughput", **DESKTOP),
        unknown("--storage", "0", storage=None),
    ],
    "io_method": [
        keep("worker", "no measurement shows a gain"),
    ],
    "io_workers": [
        keep("3", "already set"),  # 8 / 4 = 2, three at least
        change("4", cpus=16),
        change("32", "from three to 32", cpus=256),  # 64, held at 32
        unknown("--cpus", "3", cpus=None),
    ],
    "io_max_workers": [
        keep("8", "already set", postgres=19),  # 8 / 2 = 4, eight at least
        change("16", cpus=32, postgres=19),
        change("32", cpus=256, postgres=19),
        unknown("--cpus", "8", cpus=None, postgres=19),
    ],
    "autovacuum_max_parallel_workers": [
        keep("0", "not measured", postgres=19),
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
        keep("100", "no measurement"),
    ],
    "bgwriter_lru_multiplier": [
        keep("2", "no measurement"),
    ],
    # --- planner
    "seq_page_cost": [
        keep("1", "the unit"),
    ],
    "random_page_cost": [
        change("1.1", "hit a cache"),
        change("1.1", "hit a cache", storage="network"),
        keep("4", "must seek", storage="hdd"),
        # Three quarters of 32 GB are 24 GB.
        change("1.1", "fit in memory", storage="hdd", data="23GB"),
        keep("4", "must seek", storage="hdd", data="24GB"),
        change("1.1", "fit in memory", storage=None, data="23GB"),
        # OLAP larger than memory.
        change("2", "data exceed memory", data="33GB", **OLAP),
        keep("4", "data exceed memory", storage="ebs", data="33GB", **OLAP),
        change("1.1", "hit a cache", data="32GB", **OLAP),
        change("1.1", "hit a cache", data="33GB"),
        unknown("--storage", "4", storage=None, data="24GB"),
        unknown("--storage", "4", storage=None),
    ],
    "jit": [
        change("off", "a short query"),
        keep("on", "long queries may gain", **OLAP),
        keep("off", "already set", postgres=19),
    ],
    "default_statistics_target": [
        change("500", "finer histograms", **OLAP),
        keep("100", "raise it for single columns"),
    ],
    "default_toast_compression": [
        keep("pglz", "only if the build has it"),
        keep("pglz", "only if the build has it", postgres=14),
        keep("lz4", "the default since 19", postgres=19),
    ],
    # --- slru: 16 and 32 pages of 8 kB; 0 is automatic
    "transaction_buffers": [keep("0", "no measurement")],
    "subtransaction_buffers": [keep("0", "no measurement")],
    "multixact_offset_buffers": [keep("128kB", "no measurement")],
    "multixact_member_buffers": [keep("256kB", "no measurement")],
    "commit_timestamp_buffers": [keep("0", "no measurement")],
    "notify_buffers": [keep("128kB", "no measurement", postgres=17)],
    "serializable_buffers": [keep("256kB", "no measurement")],
    # --- monitoring
    "track_io_timing": [
        unknown("the server's clocksource", "off"),
    ],
    "log_checkpoints": [
        keep("on", "default since 15"),
        keep("on", "default since 15", postgres=15),
        change("on", "what starts checkpoints", postgres=14),
        change("on", "what starts checkpoints", postgres=13),
    ],
    "log_lock_waits": [
        change("on", "wait longer than a second"),
        keep("on", "default since 19", postgres=19),
    ],
    "log_temp_files": [
        change("64MB", "statements that spill"),
        change("1GB", "statements that spill", **OLAP),
    ],
    "log_autovacuum_min_duration": [
        change("1min", "vacuum is slow"),
        change("1min", "vacuum is slow", postgres=14),
    ],
    "max_slot_wal_keep_size": [
        change("50GB", "abandoned slot", disk="200GB"),
        change("62GB", "abandoned slot", disk="250GB"),
        change("512MB", "abandoned slot", disk="2GB"),
        # max_wal_size is 10 GB, of which 10 / 1.9 = 5.3 are written between two checkpoints: they
        # add to what a slot keeps, and 15 GB would fill the volume.
        change("5GB", "abandoned slot", disk="200GB", wal_disk="20GB"),
        change("2GB", "abandoned slot", disk="200GB", wal_disk="8GB"),
        change("75MB", "abandoned slot", disk="300MB"),  # below max_wal_size of 128 MB
        unknown("--disk or --wal-disk", "-1"),
    ],
    "temp_file_limit": [
        change("20GB", "runaway join", disk="200GB"),
        change("50GB", "runaway join", disk="200GB", **OLAP),
        unknown("--disk", "-1"),
    ],
    # --- timeouts, clients that are gone, locks
    "transaction_timeout": [
        change("5min", "short statements"),
        keep("0", "normal for this workload", **OLAP),
    ],
    "lock_timeout": [
        change("5s", "ALTER TABLE"),
        keep("0", "one user", **DESKTOP),
    ],
    "idle_session_timeout": [
        keep("0", "pools"),
    ],
    "client_connection_check_interval": [
        change("10s", "client has gone"),
    ],
    "tcp_keepalives_idle": [
        change("1min", "two hours"),
    ],
    "tcp_keepalives_interval": [
        change("10s", "two hours"),
    ],
    "tcp_keepalives_count": [
        change("6", "two hours"),
    ],
    "max_locks_per_transaction": [
        keep("64", "many partitions"),
    ],
    # --- vacuum against wraparound
    "autovacuum": [
        keep("on", "must be"),
    ],
    "track_counts": [
        keep("on", "must be"),
    ],
    "autovacuum_freeze_max_age": [
        keep("200000000", "no measurement"),
    ],
    "autovacuum_multixact_freeze_max_age": [
        keep("400000000", "lock the same rows"),
    ],
    "vacuum_failsafe_age": [
        keep("1600000000", "half a billion"),
    ],
    # --- replication
    "idle_replication_slot_timeout": [
        change("2d", "abandoned"),
    ],
    "hot_standby_feedback": [
        keep("off", "bloat on the primary"),
    ],
    "max_standby_streaming_delay": [
        keep("30s", "reports finish"),
    ],
    "max_standby_archive_delay": [
        keep("30s", "archive"),
    ],
    # --- partitions
    "enable_partitionwise_join": [
        keep("off", "large reports"),
        keep("off", "large reports", **OLAP),
    ],
    "enable_partitionwise_aggregate": [
        keep("off", "large reports"),
    ],
    # --- the log
    "log_min_duration_statement": [
        change("1s", "names statements"),
        change("1min", "names statements", **OLAP),
    ],
    "log_min_duration_sample": [
        keep("-1", "too much"),
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
        "log_lock_waits",
        "log_temp_files",
        "log_autovacuum_min_duration",
        "transaction_timeout",
        "lock_timeout",
        "client_connection_check_interval",
        "tcp_keepalives_idle",
        "tcp_keepalives_interval",
        "tcp_keepalives_count",
        "idle_replication_slot_timeout",
        "log_min_duration_statement",
    }
    assert not suggested & {item.name for item in tuning.changes}
    assert not [name for name in suggested if name in tuning.as_conf()]


def test_a_file_for_a_desktop_of_unknown_system_offers_what_linux_accepts() -> None:
    text = machine(postgres=17, **DESKTOP).as_conf()
    assert "#effective_io_concurrency = 128\n#maintenance_io_concurrency = 128\n" in text
    assert "\neffective_io_concurrency" not in text


EFFECTIVE, MAINTENANCE = "effective_io_concurrency", "maintenance_io_concurrency"


@pytest.mark.parametrize(
    ("format", "accepted"),
    [
        *((name, {EFFECTIVE, MAINTENANCE}) for name in (
            "cloudnativepg", "crunchy", "docker", "helm", "nixos", "patroni", "puppet", "zalando",
        )),
        ("azure", {EFFECTIVE}),
        ("azure-terraform", {EFFECTIVE}),
        ("cloudsql", set()),
        ("cloudsql-terraform", set()),
    ],
)  # fmt: skip
def test_what_runs_on_linux_alone_has_what_linux_accepts(format: str, accepted: set[str]) -> None:
    """But for what the managed services refuse."""
    read = parse(format, machine(postgres=17, **DESKTOP).as_(format))
    found = {name: value for name, value in read.items() if name.endswith("io_concurrency")}
    assert found == dict.fromkeys(accepted, "128")


@pytest.mark.parametrize("workload", ["web", "oltp", "mixed", "olap", "desktop"])
def test_no_suggestion_makes_the_server_ignore_another(workload: str) -> None:
    """Documentation of transaction_timeout: it overrides what is as long or longer; 0 is off."""
    tuning = machine(workload=workload, postgres=18)
    limit, idle, statement = (
        parse_duration(tuning[name].value) if tuning[name].target else 0.0
        for name in (
            "transaction_timeout", "idle_in_transaction_session_timeout", "statement_timeout",
        )
    )  # fmt: skip
    assert not limit or max(idle, statement) < limit


@pytest.mark.parametrize("major", range(13, 20))
def test_a_parameter_that_a_version_lacks_is_not_advised(major: int) -> None:
    """Source: release notes of 14, 16, 17, 18 and 19."""
    came = {
        "default_toast_compression": 14,
        "idle_session_timeout": 14,
        "client_connection_check_interval": 14,
        "vacuum_failsafe_age": 14,
        "transaction_timeout": 17,
        "idle_replication_slot_timeout": 18,
        "vacuum_buffer_usage_limit": 16,
        "io_combine_limit": 17,
        "transaction_buffers": 17,
        "subtransaction_buffers": 17,
        "multixact_offset_buffers": 17,
        "multixact_member_buffers": 17,
        "commit_timestamp_buffers": 17,
        "notify_buffers": 17,
        "serializable_buffers": 17,
        "io_method": 18,
        "io_max_combine_limit": 18,
        "autovacuum_max_parallel_workers": 19,
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
        "max_wal_size",
        "work_mem",
        "effective_io_concurrency",
        "maintenance_io_concurrency",
        "random_page_cost",
        "track_io_timing",
        "backend_flush_after",
        "max_slot_wal_keep_size",
        "temp_file_limit",
    }
    assert not gaps & {item.name for item in tuning.changes}
    assert tuning["checkpoint_timeout"].value == "15min"


def test_a_version_nobody_named_is_eighteen() -> None:
    assert mrtuner.tune(memory="8GB").situation.major == 18
