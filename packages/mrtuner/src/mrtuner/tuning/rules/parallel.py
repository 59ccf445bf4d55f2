"""Worker processes and parallel query."""

from __future__ import annotations

from mrtuner.formula.expression import CPUS, MEMORY, Expr, greatest, least
from mrtuner.inputs import Workload
from mrtuner.tuning.situation import Memory, ParallelWorkers, Situation
from mrtuner.tuning.verdict import Basis, Change, Keep, Verdict, rule
from mrtuner.units import MiB

DOC = "documentation: Resource Consumption, Worker Processes"
#: Memory for a worker: its own overhead and its share of sorts and hashes.
A_WORKER = 64 * MiB
#: If this share of the planned workers did not start, it is no accident.
MANY_MISSING = 0.2
ONE_PER_CPU = "one per CPU or per 64 MB of memory, whichever is fewer, and at least two"


@rule(
    "max_parallel_workers",
    basis=Basis.ARITHMETIC,
    source=DOC,
    risk="workers share the CPUs with every other session",
)
def max_parallel_workers_by_cpus(
    memory: Memory | None, workers: ParallelWorkers | None, situation: Situation
) -> Verdict:
    """One per CPU, at least two: more cannot run at the same time. Never more than one for
    each 64 MB of memory: a small container on a large host sees many CPUs.
    """
    to = greatest(2, _workers(memory))
    if workers and workers.missing >= MANY_MISSING:
        seen = f"{workers.words} {situation.observed}"
        because = f"{seen}; {ONE_PER_CPU}"
        return Change(to, because, Basis.OBSERVED)
    return Change(to, ONE_PER_CPU)


def _workers(memory: Memory | None) -> Expr:
    return CPUS if memory is None else least(CPUS, MEMORY / A_WORKER)


@rule(
    "max_worker_processes",
    basis=Basis.ARITHMETIC,
    source=DOC + "; a standby needs at least its primary's value",
    risk="restart; must not be lower on a standby than on the primary",
)
def max_worker_processes_for_parallel_workers(
    memory: Memory | None, situation: Situation
) -> Verdict:
    """The parallel workers, plus four for extensions and logical replication. Never below the
    server's own default of 8, nor below what a live server has: a slot that nobody uses costs next
    to nothing. PgTune goes below 8 on four to seven CPUs.
    """
    wanted = greatest(8, _workers(memory) + 4)
    running = situation.running.get("max_worker_processes")
    if running and situation.cpus and int(running) > wanted.evaluate(situation.machine):
        return Keep("already more than the parallel workers need; unused slots cost little")
    return Change(wanted, "all parallel workers, and four for extensions and replication")


@rule("max_parallel_workers_per_gather", source=DOC, risk="one query takes more of the machine")
def max_parallel_workers_per_gather_by_workload(
    workload: Workload, workers: ParallelWorkers | None, situation: Situation
) -> Verdict:
    """Half the CPUs, up to 16, where a few large queries run. At most two where many small ones do:
    more would only take workers from each other. Half of what is in force if there is a worker for
    each CPU and yet a fifth of those planned could not start. A plan that counts on workers which
    never come is the wrong plan.
    """
    if workers and workers.missing >= MANY_MISSING and _one_for_each_cpu(situation):
        now = int(situation.running.get("max_parallel_workers_per_gather", 2))
        if now > 1:
            seen = f"{workers.words} {situation.observed}"
            because = f"{seen}, although plans relied on them"
            return Change(now // 2, because, Basis.OBSERVED)
    if workload is Workload.OLAP:
        return Change(least(16, CPUS / 2), "half the CPUs, at most 16, may help one large query")
    return Change(least(2, CPUS / 2), "half the CPUs, at most two: many sessions share them")


def _one_for_each_cpu(situation: Situation) -> bool:
    running = int(situation.running.get("max_parallel_workers", 8))
    return situation.cpus is not None and running >= situation.cpus.count


@rule("max_parallel_maintenance_workers", source=DOC, risk="index builds take more of the machine")
def max_parallel_maintenance_workers_by_cpus() -> Verdict:
    """Half the CPUs, one at least and four at most: beyond that the storage is the limit."""
    return Change(greatest(1, least(4, CPUS / 2)), "half the CPUs, at least one and at most four")


@rule(
    "parallel_leader_participation",
    source=DOC,
    risk="none",
)
def parallel_leader_participation_on() -> Verdict:
    """Left as it is: switching it off helps only where the leader is the bottleneck."""
    return Keep("the leader process helps too")
