"""What measuring through us costs: `make bench-overhead`, or shorter:

    python bench/overhead.py --blocks 3 --seconds 5 --warmup 1
    python bench/overhead.py --workload select

Three ways to run pgbench on the same server, in random order within blocks, each after a fresh copy
of the data (unless it only reads), a warm-up and a CHECKPOINT:

    bare     pgbench started by hand, without a log
    logged   pgbench started by hand with the arguments that we give it, including its log
    ours     through the engine of `mrtuner bench`, collectors included

Ratios by the paired t on log ratios, with their 95 % intervals. Budget: ours within 1 % of logged.
Throughput of a small machine varies by more than that, so CPU time is printed too: what pgbench
itself used per transaction, and the share of a CPU that the collectors took.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from mrtuner.bench.engine.run import RunFiles, RunPosition, RunTarget, WarmUp, measured
from mrtuner.bench.load.pgbench import children_cpu, find_pgbench
from mrtuner.bench.load.pgbench_output import read_summary
from mrtuner.bench.plan import order
from mrtuner.bench.plan.cells import Block
from mrtuner.bench.plan.model import GridCell, Plan, Variant, Workload
from mrtuner.bench.server import scratch
from mrtuner.bench.server.session import counted_checkpoint
from mrtuner.postgres.binaries import find_binaries
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.stats.comparison import Comparison, compare

ARMS = ("bare", "logged", "ours")
TEMPLATE = "overhead"


@dataclass(frozen=True, slots=True)
class Seen:
    """One run."""

    tps: float
    client: float  # CPU seconds of pgbench for a transaction
    collectors: float = 0.0  # CPUs


def main(arguments: Sequence[str]) -> None:
    given = _options().parse_args(arguments)
    plan = Plan(
        workloads=(Workload(name=given.workload, builtin=given.workload),),
        variants=(Variant(name="ours"), Variant(name="unused")), scales=(given.scale,),
        clients=(given.clients,), blocks=given.blocks, seconds=given.seconds,
        warmup=given.warmup, delta=0.01,
    )  # fmt: skip
    binaries = find_binaries(given.server_bin)
    cluster = Cluster.create(binaries, scratch_directory(), {"max_wal_size": "4GB"})
    try:
        with cluster, TemporaryDirectory(prefix="mrtuner-overhead-") as name:
            files = RunFiles(plan, Path(name), find_pgbench(binaries))
            seen = _measure_all(files, cluster, given.workload == "select")
    finally:
        cluster.remove()
    _tell(plan, seen)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--workload", choices=("tpcb", "select"), default="tpcb")
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--server-bin", type=Path)
    return parser


def _measure_all(
    files: RunFiles, cluster: Cluster, reads_only: bool
) -> Sequence[Mapping[str, Seen]]:
    """Return what every block measured, by arm."""
    plan, dsn = files.plan, cluster.dsn()
    cell = GridCell(plan.workloads[0].name, plan.scales[0], plan.clients[0])
    scratch.make_template(dsn, TEMPLATE, cell.scale, files.program)
    seen: list[dict[str, Seen]] = []
    for number, arms in enumerate(order.blocks(ARMS, plan.blocks, plan.seed), 1):
        block = {}
        for position, arm in enumerate(arms, 1):
            place = RunPosition(Block(cell, "comparison", number, ARMS), 1, position, arm, "ours")
            database = TEMPLATE
            if not reads_only:
                with connect(dsn) as session:
                    database = scratch.fresh_copy(session, TEMPLATE)
            target = RunTarget(
                scratch.in_database(dsn, database), cluster.data, local=True, rate=None
            )
            block[arm] = _run(files, place, target)
        seen.append(block)
        said = ", ".join(f"{arm} {block[arm].tps:.0f}" for arm in ARMS)
        sys.stderr.write(f"block {number} of {plan.blocks}: {said} tps\n")
    return seen


def _run(files: RunFiles, place: RunPosition, target: RunTarget) -> Seen:
    """Measure one run; all arms warm up alike, with a bare pgbench."""
    if files.plan.warmup_seconds:
        _pgbench(files, place, target, files.plan.warmup_seconds, ~files.seed(place) & 0x7FFFFFFF)
    seconds = files.plan.seconds
    with connect(target.dsn) as session:
        if place.label == "ours":
            taken = measured(files, place, target, WarmUp(), session)
            run = taken.run
            return Seen(run.tps, run.client_cpu / run.transactions, taken.collector_cpu / seconds)
        counted_checkpoint(session)
    log = ("--log",) if place.label == "logged" else ()
    return _pgbench(files, place, target, seconds, files.seed(place), *log)


def _pgbench(
    files: RunFiles, place: RunPosition, target: RunTarget, seconds: int, seed: int, *more: str
) -> Seen:
    cell = place.block.cell
    command = [
        str(files.program), "--no-vacuum", f"--time={seconds}", f"--client={cell.clients}",
        f"--jobs={min(files.plan.threads, cell.clients)}", "--protocol=prepared",
        f"--random-seed={seed}", *more, *files.options(cell, None), target.dsn,
    ]  # fmt: skip
    before = children_cpu()
    with TemporaryDirectory(prefix="mrtuner-overhead-") as logs:
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=logs)
    summary = read_summary(done.stdout)
    return Seen(summary.tps, (children_cpu() - before) / summary.transactions)


def _tell(plan: Plan, seen: Sequence[Mapping[str, Seen]]) -> None:
    say = sys.stdout.write
    cell = GridCell(plan.workloads[0].name, plan.scales[0], plan.clients[0])
    say(f"{cell.key}, {plan.blocks} blocks of {plan.seconds} s\n")
    for first, second, what in (
        ("logged", "ours", "through us / the same arguments by hand (budget: within 1 %)"),
        ("bare", "logged", "with pgbench's log / without"),
        ("bare", "ours", "through us / by hand without a log"),
    ):
        found = compare([(one[first].tps, one[second].tps) for one in seen], delta=plan.delta)
        say(f"{what}: {_words(found)}\n")
    used = {arm: 1e6 * median(one[arm].client for one in seen) for arm in ARMS}
    said = ", ".join(f"{arm} {used[arm]:.1f}" for arm in ARMS)
    say(f"CPU time of pgbench for a transaction, µs (median): {said}\n")
    share = median(one["ours"].collectors for one in seen)
    say(f"collectors: {share:.2%} of a CPU (median)\n")


def _words(found: Comparison) -> str:
    interval = f"{found.low:.4f} to {found.high:.4f}"
    return f"{found.ratio:.4f} ({interval}), {found.verdict}, {found.pairs} blocks"


if __name__ == "__main__":
    main(sys.argv[1:])
