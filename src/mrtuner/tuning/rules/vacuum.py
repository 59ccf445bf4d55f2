"""Autovacuum and maintenance commands."""

from __future__ import annotations

from mrtuner.formula import CPUS, MEMORY, greatest, least
from mrtuner.host.model import Storage
from mrtuner.tuning.situation import Cpus, Data, DeadRows, Memory, Situation, Workload
from mrtuner.tuning.verdict import Basis, Change, Keep, Verdict, rule
from mrtuner.units import GiB, MiB, pretty_bytes

DOC = "documentation: Vacuuming, Automatic Vacuuming"
MEMORY_DOC = "documentation: Resource Consumption, Memory"
#: Where a fifth of a table's rows is so many that vacuum comes too late.
LARGE = 100 * GiB


@rule(
    "autovacuum_max_workers",
    source=DOC,
    risk="all workers share one cost limit: more of them vacuum no faster by themselves",
)
def a_worker_for_eight_cpus(memory: Memory | None) -> Verdict:
    """Three, or one for each eight CPUs up to eight where each has 2 GB of memory behind it.
    (timescaledb-tune's ten workers are a large part of its worst case of 189 to 228 %.)
    """
    workers = least(8, CPUS / 8) if memory is None else least(8, CPUS / 8, MEMORY / (2 * GiB))
    return Change(greatest(3, workers), "one for each eight CPUs, three at least")


@rule(
    "maintenance_work_mem",
    basis=Basis.ARITHMETIC,
    source=MEMORY_DOC,
    risk="each CREATE INDEX, VACUUM or ALTER TABLE may take it; one is in the budget",
)
def a_sixteenth_for_maintenance(workload: Workload) -> Verdict:
    """A sixteenth of memory, 1 GB at most (4 GB for OLAP): index builds gain little beyond."""
    most = 4 * GiB if workload is Workload.OLAP else GiB
    return Change(
        greatest(16 * MiB, least(MEMORY / 16, most)),
        f"a sixteenth, {pretty_bytes(most)} at most: index builds gain little beyond",
    )


@rule(
    "autovacuum_work_mem",
    basis=Basis.ARITHMETIC,
    source=MEMORY_DOC + "; release notes 17: dead row pointers in a radix tree",
    risk="too little and indexes are scanned more than once in a vacuum",
)
def each_worker_its_own(situation: Situation) -> Verdict:
    """A sixty-fourth of memory, 1 GB at most before 17 (6 bytes a dead row), 256 MB since (far
    fewer): set apart from maintenance_work_mem, since every worker may take it.
    """
    most = 256 * MiB if situation.major >= 17 else GiB
    return Change(
        greatest(8 * MiB, least(MEMORY / 64, most)),
        f"every worker may take it; more than {pretty_bytes(most)} is not used up",
    )


@rule("autovacuum_naptime", source=DOC, risk="none")
def the_usual_nap() -> Verdict:
    """Left as it is: busier autovacuum showed nothing or harm on a small machine."""
    return Keep("a busier launcher showed no gain when measured")


@rule("autovacuum_vacuum_cost_delay", source=DOC, risk="none")
def the_usual_delay(situation: Situation) -> Verdict:
    """2 ms, the default; a longer one left from older versions is brought back to it."""
    running = situation.running.get("autovacuum_vacuum_cost_delay")
    if running is not None and float(running) > 2:
        return Change("2ms", "a longer delay, usual before 12, lets dead rows pile up")
    return Keep("2 ms suits today's storage; the limit is what to raise")


@rule(
    "autovacuum_vacuum_cost_limit",
    source=DOC,
    risk="vacuum reads and writes faster, beside the application",
)
def faster_on_local_flash(storage: Storage, cpus: Cpus) -> Verdict:
    """1,000 on SSD or NVMe with at least eight CPUs; else left as it is (200), since on small
    or networked machines vacuum would take the application's I/O.
    """
    if storage in {Storage.SSD, Storage.NVME} and cpus.count >= 8:
        return Change(1000, "local flash and CPUs to spare: vacuum may go five times as fast")
    return Keep("vacuum must leave I/O and CPU to the application")


@rule(
    "autovacuum_vacuum_scale_factor",
    source=DOC + "; field notes on large tables",
    risk="large tables are vacuumed more often, each time with less to do",
)
def sooner_where_tables_are_large(
    data: Data | None, dead_rows: DeadRows | None, workload: Workload
) -> Verdict:
    """0.05 where large tables carry too many dead rows (measured), or where there are 100 GB or
    more; else left as it is. Single tables are better set one by one (`mrtuner vacuum`).
    """
    if dead_rows and dead_rows.tables:
        return Change(
            0.05,
            f"{dead_rows.share:.0%} of {dead_rows.table} is dead, and {dead_rows.tables} large "
            "tables wait too long",
            Basis.MEASURED,
        )
    if data and data.size >= LARGE and workload is not Workload.OLAP:
        return Change(0.05, "a fifth of a large table is too many dead rows to wait for")
    return Keep("no large table is known to wait too long")


@rule("autovacuum_analyze_scale_factor", source=DOC, risk="more ANALYZE on large tables")
def fresher_statistics_where_tables_are_large(data: Data | None) -> Verdict:
    """0.05 with 100 GB of data or more; else left as it is."""
    if data and data.size >= LARGE:
        return Change(0.05, "a tenth of a large table can change its statistics before")
    return Keep("a tenth is soon enough for small tables")


@rule("autovacuum_vacuum_insert_scale_factor", source=DOC, risk="more vacuums of growing tables")
def freeze_growing_tables_sooner(data: Data | None) -> Verdict:
    """0.05 with 100 GB of data or more; else left as it is."""
    if data and data.size >= LARGE:
        return Change(0.05, "large insert-only tables are frozen and made visible sooner")
    return Keep("a fifth is soon enough for small tables")
