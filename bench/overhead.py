"""What measuring through us costs: `make bench-overhead`, or shorter:

    python bench/overhead.py --blocks 3 --seconds 5 --warmup 1
    python bench/overhead.py --workload select

Three ways to run the same pgbench arguments on the same server, in random order within blocks,
each behind a fresh copy of the data, a warm-up and a CHECKPOINT:

    raw      pgbench started by hand: no log, nobody looking
    quiet    through the engine of `mrtuner bench`, without collectors
    ours     the same with collectors, as every plan runs unless it says collect = false

Ratios by the paired t on log ratios, with their 95 % intervals. Budget: ours within 1 % of raw.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from mrtuner.bench import order, scratch
from mrtuner.bench.grid.cells import Block
from mrtuner.bench.grid.measure import Place, RunFiles, Target, WarmUp, measured
from mrtuner.bench.grid.plan import Cell, GridPlan, Variant, Workload
from mrtuner.bench.output import read_summary
from mrtuner.bench.pgbench import Load, find_pgbench
from mrtuner.bench.server import counted_checkpoint
from mrtuner.postgres.cluster import Cluster, find_binaries, scratch_directory
from mrtuner.postgres.connect import connect
from mrtuner.stats.paired import Comparison, compare

ARMS = ("raw", "quiet", "ours")
TEMPLATE = "overhead"


def main(arguments: Sequence[str]) -> None:
    given = _options().parse_args(arguments)
    plan = GridPlan(
        workloads=(Workload(name=given.workload, builtin=given.workload),),
        variants=(Variant(name="quiet", collect=False), Variant(name="ours")),
        scales=(given.scale,), clients=(given.clients,), blocks=given.blocks,
        seconds=given.seconds, warmup=given.warmup, delta=0.01,
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
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--server-bin", type=Path)
    return parser


def _measure_all(files: RunFiles, cluster: Cluster, reads_only: bool) -> list[dict[str, float]]:
    """Throughput by arm, block after block."""
    plan, dsn = files.plan, cluster.dsn()
    cell = Cell(plan.workloads[0].name, plan.scales[0], plan.clients[0])
    scratch.make_template(dsn, TEMPLATE, Load(scale=cell.scale), files.program, fillfactor=None)
    seen: list[dict[str, float]] = []
    for number, arms in enumerate(order.blocks(ARMS, plan.blocks, plan.seed), 1):
        tps = {}
        for position, arm in enumerate(arms, 1):
            place = Place(Block(cell, "comparison", number, ARMS), 1, position, arm, arm)
            database = TEMPLATE
            if not reads_only:
                with connect(dsn) as session:
                    database = scratch.fresh_copy(session, TEMPLATE)
            target = Target(scratch.in_database(dsn, database), cluster.data, local=True, rate=None)
            tps[arm] = _run(files, place, target)
        seen.append(tps)
        said = ", ".join(f"{arm} {tps[arm]:.0f}" for arm in ARMS)
        sys.stderr.write(f"block {number} of {plan.blocks}: {said} tps\n")
    return seen


def _run(files: RunFiles, place: Place, target: Target) -> float:
    """All arms warm up alike, by a bare pgbench."""
    if files.plan.warmup_seconds:
        _pgbench(files, place, target, files.plan.warmup_seconds, ~files.seed(place) & 0x7FFFFFFF)
    if place.variant == "raw":
        with connect(target.dsn) as session:
            counted_checkpoint(session)
        return _pgbench(files, place, target, files.plan.seconds, files.seed(place))
    with connect(target.dsn) as session:
        return measured(files, place, target, WarmUp(), session).sample.run.tps


def _pgbench(files: RunFiles, place: Place, target: Target, seconds: int, seed: int) -> float:
    cell = place.block.cell
    command = [
        str(files.program), "--no-vacuum", f"--time={seconds}", f"--client={cell.clients}",
        f"--jobs={min(files.plan.threads, cell.clients)}", "--protocol=prepared",
        f"--random-seed={seed}", *files.options(cell, None), target.dsn,
    ]  # fmt: skip
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return read_summary(done.stdout).tps


def _tell(plan: GridPlan, seen: Sequence[Mapping[str, float]]) -> None:
    say = sys.stdout.write
    cell = Cell(plan.workloads[0].name, plan.scales[0], plan.clients[0])
    say(f"{cell.key}, {plan.blocks} blocks of {plan.seconds} s\n")
    for first, second, what in (
        ("raw", "ours", "through us / pgbench alone (budget: within 1 %)"),
        ("raw", "quiet", "through us without collectors / pgbench alone"),
        ("quiet", "ours", "with collectors / without"),
    ):
        found = compare([(tps[first], tps[second]) for tps in seen], delta=plan.delta)
        say(f"{what}: {_words(found)}\n")


def _words(found: Comparison) -> str:
    interval = f"{found.low:.4f} to {found.high:.4f}"
    return f"{found.ratio:.4f} ({interval}), {found.verdict}, {found.pairs} blocks"


if __name__ == "__main__":
    main(sys.argv[1:])
