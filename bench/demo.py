"""How often is each load of the demo decided? `make bench-demo`, or:

    python bench/demo.py --runs 10 --output demo-runs

Runs `mrtuner demo` repeatedly on an otherwise idle machine (some twelve minutes each), keeps every
report.json in the directory, and prints a table for docs/measured-results.md. Existing runs count,
so an interrupted series can be continued.

    python bench/demo.py --pilots 10 --output demo-pilots

measures the same loads that many times on one pair of servers, filled once (some six minutes each).
Each pilot counts as a run of its own: its p values are adjusted for its own loads.

    python bench/demo.py --judge-again --output demo-runs

measures nothing: it judges the existing records by the measures that the loads have today.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

DECIDED = ("better", "worse", "equivalent")


def main(arguments: Sequence[str]) -> int:
    given = _options().parse_args(arguments)
    given.output.mkdir(parents=True, exist_ok=True)
    if given.pilots:
        pilots(given.pilots, given.output)
    elif not given.judge_again:
        whole_runs(given.runs, given.output)
    reports = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(given.output.glob("run-*/report.json"))
    ]
    if given.judge_again:
        reports = [judged_again(report) for report in reports]
    for line in table(reports):
        sys.stdout.write(f"{line}\n")
    return 0


def whole_runs(count: int, output: Path) -> None:
    """Run the command `count` times; a run that has a report is not repeated."""
    for number in range(1, count + 1):
        place = output / f"run-{number:02}"
        if not (place / "report.json").is_file():
            command = [sys.executable, "-c", "from mrtuner.cli import main; main()", "demo"]
            subprocess.run([*command, "--dir", str(place)], check=True, stdout=subprocess.DEVNULL)


def pilots(count: int, output: Path) -> None:
    """Measure all loads `count` times on the same servers; keep a report for each time."""
    from mrtuner.answers.proof.prove import Proof
    from mrtuner.bench.plan.model import fresh_seed
    from mrtuner.bench.series import Measured, Series
    from mrtuner.cli import demo
    from mrtuner.cli.common import proving
    from mrtuner.documents import as_builtins
    from mrtuner.host import probe
    from mrtuner.postgres.binaries import find_binaries

    found: list[list[Measured]] = [[] for _ in range(count)]
    binaries = find_binaries(None)
    with demo.scratch() as base:
        host = probe(data_directory=base)
        stages = [demo.memory_stage(binaries, base, host), demo.volume_stage(binaries, host)]
        for stage in stages:
            tasks = [stage.tasks(fresh_seed()) for _ in range(count)]
            flat = [task for some in tasks for task in some]
            measured = stage.measure(flat, lambda _task: _silent, output / "history")
            for place, one in enumerate(measured):
                found[place // len(tasks[0])].append(one)
                sys.stderr.write(f"{len(found[place // len(tasks[0])])}: {one.title}\n")
    for number, of_run in enumerate(found, 1):
        series = Series(measured=tuple(of_run), left_out=(), busy=None)
        place_of = output / f"run-{number:02}"
        place_of.mkdir(exist_ok=True)
        document = as_builtins(proving.document(Proof(tuning=stages[0].tuning, series=series)))
        (place_of / "report.json").write_text(json.dumps(document), encoding="utf-8")


def _silent(_event: object) -> None:
    """Show no progress within a load."""


def judged_again(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Judge the loads of a report again, from its records and by the measures of today's plans."""
    from mrtuner.bench.plan import demo
    from mrtuner.bench.series import from_dict
    from mrtuner.cli.common.document import load_result
    from mrtuner.documents import as_builtins

    sides: Mapping[str, Mapping[str, str]] = {"default": {}, "advised": {}}
    tasks = [*demo.in_memory(1, 1, 1, sides), *demo.small_volume(1, sides)]
    today = {one.name: one.judged_by for task in tasks for one in task.plan.workloads}
    for load in report["proof"]["loads"]:
        for workload in load["head"]["plan"]["workloads"]:
            workload["judged_by"] = today[workload["name"]]
    findings = from_dict(report["proof"]).findings
    return {"loads": [as_builtins(load_result(one)) for one in findings]}


def table(reports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a row per load: the count of each verdict, the median ratio, its range, the pauses."""
    runs = f"{len(reports)} run{'s' * (len(reports) != 1)}"
    yield f"| Load, {runs} | decided | verdicts | ratio, median (range) | longest pause |"
    yield "|:--|--:|:--|:--|:--|"
    for title in dict.fromkeys(load["title"] for report in reports for load in report["loads"]):
        yield _row([one for report in reports for one in report["loads"] if one["title"] == title])


def _row(loads: Sequence[Mapping[str, Any]]) -> str:
    verdicts = Counter(load["verdict"] for load in loads)
    decided = sum(verdicts[name] for name in DECIDED)
    ratios = sorted(load["ratio"] for load in loads)
    words = ", ".join(f"{name} {count}" for name, count in verdicts.most_common())
    return (
        f"| {loads[0]['title']} ({loads[0]['measure']}) | {decided} of {len(loads)} | {words} |"
        f" {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) | {_pauses(loads)} |"
    )


def _pauses(loads: Sequence[Mapping[str, Any]]) -> str:
    """Return the range of the longest pauses over all runs, advised against default."""
    sides = [
        sorted(load["sides"][place]["longest_pause_s"] or 0.0 for load in loads) for place in (1, 0)
    ]
    if max(sides[0][-1], sides[1][-1]) < 1:
        return "–"
    ours, theirs = (f"{side[0]:.2g} to {side[-1]:.2g} s" for side in sides)
    return f"{ours} against {theirs}"


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--pilots", type=int, default=0)
    parser.add_argument("--judge-again", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("demo-runs"))
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
