"""Does `mrtuner bench` call a difference where there is none? `make bench-same`, or shorter:

    python bench/same.py --plans 2 --blocks 3 --seconds 2

Every plan compares two equal variants, with the settings and limits of a user's plan; plans write
and read alternately. Prints a line for each plan and the totals; exit code 1 if more than two in
twenty report a difference.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from mrtuner.bench.engine.grid import run_grid
from mrtuner.bench.load.pgbench import Builtin
from mrtuner.bench.plan.model import Plan, Variant, Workload
from mrtuner.bench.verdict.judge import CellVerdict, verdicts
from mrtuner.stats.comparison import Verdict

TOLERATED = 0.1  # of the plans


def main(arguments: Sequence[str]) -> int:
    given = _options().parse_args(arguments)
    seen = [_one(number, given) for number in range(given.plans)]
    called = [one for one in seen if one.verdict in (Verdict.BETTER, Verdict.WORSE)]
    below = sum(one.comparison.p_value < 0.05 for one in seen)
    sys.stdout.write(
        f"{given.plans} plans of two equal variants: {len(called)} called a difference,"
        f" {sum(one.verdict is Verdict.EQUIVALENT for one in seen)} equivalent,"
        f" {sum(one.verdict is Verdict.UNDECIDED for one in seen)} undecided;"
        f" p below 0.05 in {below}\n"
    )
    return int(len(called) > TOLERATED * given.plans)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--plans", type=int, default=20)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--scale", type=int, default=5)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server-bin", type=Path)
    return parser


def _one(number: int, given: argparse.Namespace) -> CellVerdict:
    builtins: tuple[Builtin, ...] = ("tpcb", "select")
    builtin = builtins[number % 2]
    plan = Plan(
        name=f"same-{number + 1}", workloads=(Workload(name=builtin, builtin=builtin),),
        variants=(Variant(name="this"), Variant(name="the-same")), scales=(given.scale,),
        clients=(given.clients,), blocks=given.blocks, seconds=given.seconds,
        warmup=given.warmup, seed=given.seed + number,
    )  # fmt: skip
    with TemporaryDirectory(prefix="mrtuner-same-") as name:
        record = run_grid(plan, Path(name) / "run", embedded=given.server_bin, force=True)
    one = verdicts(record)[0]
    seen = one.comparison
    sys.stdout.write(
        f"{plan.name} {builtin}: {one.verdict}, {seen.ratio:.3f}"
        f" ({seen.low:.3f} to {seen.high:.3f}), p {seen.p_value:.2f}\n"
    )
    sys.stdout.flush()
    return one


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
