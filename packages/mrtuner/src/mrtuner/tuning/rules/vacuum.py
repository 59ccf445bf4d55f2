"""Autovacuum and maintenance commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil

from mrtuner.formula.expression import CPUS, MEMORY, greatest, least
from mrtuner.inputs import Workload
from mrtuner.tuning.budget import (
    ENOUGH,
    SPARED,
    VACUUM_CAP,
    Chosen,
    consumers,
    limited,
    room_for_sessions,
)
from mrtuner.tuning.situation import (
    Commits,
    Data,
    DeadRows,
    Memory,
    Situation,
    Throughput,
)
from mrtuner.tuning.verdict import Basis, Change, Keep, OwnValue, Verdict, rule
from mrtuner.units import PAGE, GiB, KiB, MiB, pretty_bytes

DOC = "documentation: Vacuuming, Automatic Vacuuming"
MEMORY_DOC = "documentation: Resource Consumption, Memory"
#: The server's default cost limit and number of workers, which belong together, and the highest
#: limit it accepts: guc_parameters.dat.
USUAL_COST_LIMIT = 200
USUAL_WORKERS = 3
MOST_WORKERS = 8
#: The server's default of maintenance_work_mem, which is nobody's choice.
USUAL_MAINTENANCE = 64 * MiB
MOST_COST_LIMIT = 10_000
#: The limit if only dead rows call for a faster vacuum and the storage's capacity is unknown.
MOST_FOR_DEAD_ROWS = 2000
#: Cost of a page that is read and dirtied (vacuum_cost_page_miss of 14 and later, _dirty), and
#: how many times a second the limit may be spent with a delay of 2 ms.
COST_OF_A_PAGE = 22
ROUNDS = 500
#: From this size on, a fifth of a table's rows is so many that vacuum comes too late.
LARGE = 100 * GiB


@rule(
    "autovacuum_max_workers",
    source=DOC,
    risk="all workers share one cost limit, which is raised with them",
)
def autovacuum_max_workers_by_cpus(
    memory: Memory | None, situation: Situation, chosen: Chosen
) -> Verdict:
    """Three, or one for each eight CPUs up to eight where each has 2 GB of memory behind it, and
    all together take no more than the memory budget spares. From 18 no more than
    autovacuum_worker_slots: the server ignores the others.
    """
    slots = int(situation.running.get("autovacuum_worker_slots", MOST_WORKERS))
    most = min(MOST_WORKERS, slots)
    workers = least(CPUS / 8, most)
    if memory is not None:
        workers = least(workers, MEMORY / (2 * GiB))
    usual = min(USUAL_WORKERS, most)
    because = f"one per eight CPUs, or per 2 GB of memory if fewer, from {usual} to {most}"
    to = greatest(usual, workers)
    if memory is not None:
        each = chosen.size("autovacuum_work_mem").evaluate(situation.machine)
        spared = limited("autovacuum_max_workers", to, chosen, situation, fewest=usual, each=each)
        if spared is not to:
            return Change(spared, SPARED)
    return Change(to, because)


@rule(
    "maintenance_work_mem",
    basis=Basis.ARITHMETIC,
    source=MEMORY_DOC,
    risk="each CREATE INDEX, VACUUM or ALTER TABLE may use it; the budget counts one",
)
def maintenance_work_mem_by_memory(workload: Workload) -> Verdict:
    """A sixteenth of memory, 1 GB at most (4 GB for OLAP). Builds of B-tree indexes gain little
    from more; for HNSW raise it in the session that builds the index.
    """
    most = 4 * GiB if workload is Workload.OLAP else GiB
    return Change(
        greatest(4 * MiB, least(MEMORY / 16, most)),
        f"a sixteenth, at most {pretty_bytes(most)}; for HNSW set more in the session that builds",
    )


@rule(
    "autovacuum_work_mem",
    basis=Basis.ARITHMETIC,
    source=MEMORY_DOC + "; release notes 17: dead row pointers in a radix tree",
    risk="if too low, a vacuum scans indexes more than once",
)
def autovacuum_work_mem_by_budget(situation: Situation, chosen: Chosen) -> Verdict:
    """A sixty-fourth of memory. At most 256 MB from 17 on, where dead rows take little memory; at
    most 1 GB before, where each takes 6 bytes. It is set apart from maintenance_work_mem, since
    every worker may take it. Before 17 it goes on following a larger maintenance_work_mem that
    somebody set, if that leaves each session 8 MB.
    """
    most = 256 * MiB if situation.major >= 17 else VACUUM_CAP
    to = greatest(2 * MiB, least(MEMORY / 64, most))
    if situation.memory and situation.major < 17:
        own = _followed(situation)
        if own > to.evaluate(situation.machine) and _may_follow(situation, chosen):
            return Keep("it follows your maintenance_work_mem, and memory suffices")
    return Change(to, f"every worker may use it; more than {pretty_bytes(most)} is rarely used")


def _followed(situation: Situation) -> int:
    """What a vacuum takes [bytes] of the maintenance_work_mem that a person set; 0: it does not."""
    own = int(situation.running.get("maintenance_work_mem", 0)) * KiB
    follows = situation.running.get("autovacuum_work_mem") == "-1"
    by_person = situation.chosen_by_person("maintenance_work_mem") and own != USUAL_MAINTENANCE
    return min(own, VACUUM_CAP) if follows and by_person else 0


def _may_follow(situation: Situation, chosen: Chosen) -> bool:
    """Whether all workers with maintenance_work_mem leave enough for the sessions' sorts."""
    follows = replace(chosen, plain={**chosen.plain, "autovacuum_work_mem": -1})
    room = room_for_sessions(follows, situation.major, situation.ceiling, situation.huge_pages)
    sorts = consumers(follows, situation.workload, situation.connections.active)
    return room.evaluate(situation.machine) >= sorts * follows.hash_factor * ENOUGH


@rule("autovacuum_max_parallel_workers", source=DOC + "; release notes 19", risk="none")
def autovacuum_max_parallel_workers_unmeasured() -> Verdict:
    """Left as it is (0): each autovacuum worker could start so many workers to vacuum the indexes
    of one table. Where that pays was not measured.
    """
    return Keep(
        "not measured; first try autovacuum_parallel_workers of one table with many indexes"
    )


@rule("autovacuum_naptime", source=DOC, risk="none")
def autovacuum_naptime_default() -> Verdict:
    """Left as it is: busier autovacuum was no better, or worse, on a small machine."""
    return Keep("a busier launcher showed no gain when measured")


@rule("autovacuum_vacuum_cost_delay", source=DOC, risk="none", own=OwnValue.LOWERED)
def autovacuum_vacuum_cost_delay_default(situation: Situation) -> Verdict:
    """2 ms, the default; a longer one left from older versions is reset to it."""
    running = situation.running.get("autovacuum_vacuum_cost_delay")
    if running is not None and float(running) > 2:
        return Change("2ms", "a longer delay, usual before 12, lets dead rows pile up")
    return Keep("2 ms suits today's storage; raise the limit instead")


@rule(
    "autovacuum_vacuum_cost_limit",
    basis=Basis.ARITHMETIC,
    source=DOC,
    risk="vacuum reads and writes faster, competing with the application",
)
def autovacuum_vacuum_cost_limit_by_workers_and_volume(
    situation: Situation,
    chosen: Chosen,
    throughput: Throughput | None,
    dead_rows: DeadRows | None,
) -> Verdict:
    """200 for the default's three workers, who share it, and as much for each further one, so that
    none slows down. More if the volume is known to bear it: half of --iops and --throughput. Twice
    what is in force, 2,000 at most, where large tables are seen past their own thresholds. Never
    below what is in force.
    """
    workers = chosen.autovacuum_workers
    share = min(MOST_COST_LIMIT, ceil(Fraction(USUAL_COST_LIMIT * workers, USUAL_WORKERS)))
    bears = 0 if throughput is None else _cost_limit_for_half_of(throughput)
    now = cost_limit_in_force(situation.running)
    if dead_rows and (faster := max(share, bears, min(MOST_FOR_DEAD_ROWS, now * 2))) > now:
        return Change(faster, f"{_behind(dead_rows)}: vacuum must go faster", Basis.OBSERVED)
    if max(share, bears) <= now:
        if throughput is None:
            return Keep("more only if the volume is known to bear it (--iops, --throughput)")
        return Keep("vacuum must leave I/O and CPU for the application")
    if bears > share:
        return Change(bears, "vacuum may take half of what the volume can do")
    return Change(share, f"{workers} workers share it: each stays as fast as one of 3")


def _cost_limit_for_half_of(throughput: Throughput) -> int:
    """The limit at which a vacuum that reads and dirties every page uses half of the volume.

    A page takes two operations and twice 8 kB. Adjacent pages take fewer operations.
    """
    known = []
    if throughput.iops is not None:
        known.append(throughput.iops / 2)
    if throughput.bandwidth is not None:
        known.append(throughput.bandwidth / PAGE / 2)
    pages = min(known) / 2
    return max(USUAL_COST_LIMIT, min(MOST_COST_LIMIT, int(pages * COST_OF_A_PAGE / ROUNDS)))


def cost_limit_in_force(running: Mapping[str, str]) -> int:
    """The limit that autovacuum has now; -1 stands for the one of manual VACUUM."""
    own = int(running.get("autovacuum_vacuum_cost_limit", -1))
    return own if own > 0 else int(running.get("vacuum_cost_limit", USUAL_COST_LIMIT))


@rule(
    "autovacuum_vacuum_scale_factor",
    source=DOC + "; field notes on large tables",
    risk="large tables are vacuumed more often, each time with less to do",
    own=OwnValue.LOWERED,
)
def autovacuum_vacuum_scale_factor_by_data_size(
    data: Data | None, dead_rows: DeadRows | None, workload: Workload
) -> Verdict:
    """0.05 where there are 100 GB or more; else left as it is. Tables that are past their own
    threshold are no reason: a lower one would start a vacuum that is due already. Single tables
    are better set one by one (`mrtuner vacuum`).
    """
    if data and data.size >= LARGE and workload is not Workload.OLAP:
        return Change(0.05, "a fifth of a large table is too many dead rows to wait for")
    if dead_rows:
        return Keep(f"{_behind(dead_rows)}: it starts in time but runs too slowly")
    return Keep("no large table is known to wait too long")


def _behind(dead_rows: DeadRows) -> str:
    worst = f"{dead_rows.table} has {dead_rows.times:.1f} times the dead rows that start a vacuum"
    more = dead_rows.tables - 1
    return f"{worst}, and {more} more large tables are late" if more else worst


@rule(
    "autovacuum_analyze_scale_factor", source=DOC, risk="more ANALYZE on large tables",
    own=OwnValue.LOWERED,
)  # fmt: skip
def autovacuum_analyze_scale_factor_by_data_size(data: Data | None) -> Verdict:
    """0.05 with 100 GB of data or more; else left as it is."""
    if data and data.size >= LARGE:
        return Change(
            0.05, "a large table's statistics can be out of date before a tenth of it changes"
        )
    return Keep("a tenth is soon enough for small tables")


@rule(
    "autovacuum_vacuum_insert_scale_factor", source=DOC, risk="more vacuums of growing tables",
    own=OwnValue.LOWERED,
)  # fmt: skip
def autovacuum_vacuum_insert_scale_factor_by_data_size(data: Data | None) -> Verdict:
    """0.05 with 100 GB of data or more; else left as it is."""
    if data and data.size >= LARGE:
        return Change(0.05, "large insert-only tables are frozen and made visible sooner")
    return Keep("a fifth is soon enough for small tables")


def _must_be_on(situation: Situation, name: str, harm: str) -> Verdict:
    if situation.running.get(name) == "off":
        return Change(True, f"it is off: {harm}")
    return Keep("on, as it must be")


@rule("autovacuum", source=DOC, risk="after a long time off, it has much to catch up with",
      suggestion=True)  # fmt: skip
def autovacuum_on(situation: Situation) -> Verdict:
    """On. Where it is off, we say so and leave the change to you."""
    return _must_be_on(situation, "autovacuum", "dead rows pile up until queries crawl")


@rule("track_counts", source="documentation: Run-time Statistics", risk="none", suggestion=True)
def track_counts_on(situation: Situation) -> Verdict:
    """On. Where it is off, we say so and leave the change to you."""
    return _must_be_on(situation, "track_counts", "autovacuum sees no changes and does not run")


#: Transactions between two forced vacuums of a table: the default, and what busy servers use.
USUAL_FREEZE_AGE = 200_000_000
BUSY_FREEZE_AGE = 500_000_000
#: Less often than this [s], a forced vacuum of every table is no burden.
A_FEW_DAYS = 3 * 86_400


@rule(
    "autovacuum_freeze_max_age",
    source="documentation: Routine Vacuuming, Preventing Transaction ID Wraparound Failures",
    risk="restart; pg_xact keeps more, and less is left until wraparound",
    suggestion=True,
)
def autovacuum_freeze_max_age_by_commits(situation: Situation, commits: Commits | None) -> Verdict:
    """Left as it is (200 million), unless the server's commits would use it up in three days; then
    500 million, as a suggestion. Only commits that write count, so the time given is the shortest.
    """
    now = int(situation.running.get("autovacuum_freeze_max_age", USUAL_FREEZE_AGE))
    if commits is None or now >= BUSY_FREEZE_AGE or commits.rate * A_FEW_DAYS <= now:
        return Keep("no measurement calls for more")
    hours = now / commits.rate / 3600
    because = f"{commits.rate:,.0f} commits a second {situation.observed}"
    return Change(
        BUSY_FREEZE_AGE, f"{because}: if all write, every table is vacuumed each {hours:.0f} h"
    )


@rule("autovacuum_multixact_freeze_max_age", source=DOC, risk="restart; as for transactions")
def autovacuum_multixact_freeze_max_age_default() -> Verdict:
    """Left as it is (400 million): multixacts come from rows that several transactions lock."""
    return Keep("400 million suffice unless many transactions lock the same rows")


@rule("vacuum_failsafe_age", source=DOC + "; release notes 14", risk="none")
def vacuum_failsafe_age_default() -> Verdict:
    """Left as it is: 1.6 billion leaves half a billion transactions for the vacuum to finish."""
    return Keep("1.6 billion leaves half a billion transactions to finish in")
