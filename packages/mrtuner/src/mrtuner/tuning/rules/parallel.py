"""Worker processes and parallel query."""

from __future__ import annotations

from mrtuner.formula.expression import CPUS, Expr, as_expr, greatest, least
from mrtuner.inputs import Workload
from mrtuner.tuning.budget import ENOUGH, FEWEST_WORKERS, SPARED, Chosen, limited, operations
from mrtuner.tuning.situation import ParallelWorkers, Situation
from mrtuner.tuning.verdict import Basis, Change, Keep, OwnValue, Verdict, rule

DOC = "documentation: Resource Consumption, Worker Processes"
#: If this share of the planned workers did not start, it is no accident.
MANY_MISSING = 0.2
ONE_PER_CPU = "one per CPU, and at least two"


@rule(
    "max_parallel_workers",
    basis=Basis.ARITHMETIC,
    source=DOC,
    risk="workers share the CPUs with every other session",
)
def max_parallel_workers_by_cpus(
    workers: ParallelWorkers | None, situation: Situation, chosen: Chosen
) -> Verdict:
    """One per CPU, at least two: more cannot run at the same time. With 8 MB of work_mem each,
    they take no more than the memory budget spares: what is left when sessions sort with 8 MB, or
    else an eighth of it. A small container on a large host sees many CPUs. No more than a
    max_worker_processes that stays: others never start.
    """
    to = _workers(chosen, situation)
    processes = int(situation.running.get("max_worker_processes", 0))
    fixed = "max_worker_processes" in situation.fixed and situation.cpus
    if fixed and 0 < processes < to.evaluate(situation.machine):
        return Change(as_expr(processes), "as many as max_worker_processes, which stays")
    if situation.cpus and to.evaluate(situation.machine) < situation.cpus.count:
        return Change(to, SPARED)
    if workers and workers.missing >= MANY_MISSING:
        seen = f"{workers.words} {situation.observed}"
        because = f"{seen}; {ONE_PER_CPU}"
        return Change(to, because, Basis.OBSERVED)
    return Change(to, ONE_PER_CPU)


def _workers(chosen: Chosen, situation: Situation) -> Expr:
    sorts = operations(situation.workload) * ENOUGH * chosen.hash_factor
    wanted = greatest(FEWEST_WORKERS, CPUS)
    return limited(
        "max_parallel_workers", wanted, chosen, situation, fewest=FEWEST_WORKERS, each=sorts
    )


@rule(
    "max_worker_processes",
    basis=Basis.ARITHMETIC,
    source=DOC + "; a standby needs at least its primary's value",
    risk="restart; must not be lower on a standby than on the primary",
)
def max_worker_processes_for_parallel_workers(chosen: Chosen, situation: Situation) -> Verdict:
    """The parallel workers, plus four for extensions and logical replication. Never below the
    server's own default of 8, nor below what a live server has: a slot that nobody uses costs next
    to nothing. PgTune goes below 8 on four to seven CPUs.
    """
    wanted = greatest(8, _workers(chosen, situation) + 4)
    running = situation.running.get("max_worker_processes")
    if running and situation.cpus and int(running) > wanted.evaluate(situation.machine):
        return Keep("already more than the parallel workers need; unused slots cost little")
    return Change(wanted, "all parallel workers, and four for extensions and replication")


@rule(
    "max_parallel_workers_per_gather",
    source=DOC,
    risk="one query takes more of the machine",
    own=OwnValue.LEFT,
)
def max_parallel_workers_per_gather_by_workload(
    workers: ParallelWorkers | None, situation: Situation, chosen: Chosen
) -> Verdict:
    """Half the CPUs, up to 16, where a few large queries run. At most two where many small ones do:
    more would only take workers from each other. Never more than half of the workers that can
    run. Half of what is in force if there is a worker for each CPU and yet a fifth of those
    planned could not start. A plan that counts on workers which never come is the wrong plan.
    """
    if workers and workers.missing >= MANY_MISSING and _one_for_each_cpu(situation):
        now = int(situation.running.get("max_parallel_workers_per_gather", 2))
        seen = f"{workers.words} {situation.observed}"
        if now > 1:
            because = f"{seen}, although plans relied on them"
            return Change(now // 2, because, Basis.OBSERVED, calls_for_less=True)
        return Keep(f"{seen}: more would not start either")
    if chosen.parallel_workers == 0:
        return Keep("max_parallel_workers or max_worker_processes is 0: none starts")
    if situation.workload is Workload.OLAP:
        to, because = least(16, CPUS / 2), "half the CPUs, at most 16, may help one large query"
    else:
        to, because = least(2, CPUS / 2), "half the CPUs, at most two: many sessions share them"
    half = max(1, chosen.parallel_workers // 2)
    if situation.cpus and half < to.evaluate(situation.machine):
        return Change(as_expr(half), "half of the parallel workers that can run")
    return Change(to, because)


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
