"""How fast the tool itself is, as ratios: `make bench-start` or `make bench-tune`.

The commands are run in turn, shuffled in every round, so that a machine whose speed drifts affects
all of them alike. Budgets (design.md of the project): --help within 8 x a bare interpreter, tune
with flags within 2.5 x --help, a Python call of tune() within 2 ms, 1,000 machines within 1 s.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import mrtuner

ROUNDS = 15
MRTUNER = str(Path(sys.executable).with_name("mrtuner"))
COMMANDS = {
    "python": [sys.executable, "-c", ""],
    "help": [MRTUNER, "--help"],
    "tune": [MRTUNER, "tune", "--memory", "16GB", "--cpus", "4", "--storage", "ssd"],
    "json": [MRTUNER, "tune", "--memory", "16GB", "--cpus", "4", "--storage", "ssd", "--json"],
}


def whole_processes() -> dict[str, float]:
    """Median seconds of each command."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS + 1):
        for name in random.sample(list(COMMANDS), len(COMMANDS)):
            began = time.perf_counter()
            subprocess.run(COMMANDS[name], check=True, capture_output=True)
            taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(times[1:]) for name, times in taken.items()}


def calls(count: int = 1000) -> float:
    """Seconds of CPU for `count` different machines in one process."""
    began = time.process_time()
    for number in range(count):
        mrtuner.tune(
            memory=(1 + number) << 30, cpus=1 + number % 64, storage="ssd", workload="oltp"
        )
    return time.process_time() - began


def main() -> None:
    medians = whole_processes()
    calls(10)
    seconds = calls()
    say = sys.stdout.write
    say(
        f"mrtuner --help / bare interpreter: {medians['help'] / medians['python']:.2f} (budget 8)\n"
    )
    say(f"mrtuner tune / --help: {medians['tune'] / medians['help']:.2f} (budget 2.5)\n")
    say(f"mrtuner tune --json / --help: {medians['json'] / medians['help']:.2f}\n")
    say(f"1,000 machines: {seconds:.2f} s of CPU, {seconds:.2f} ms a call (budgets 1 s, 2 ms)\n")


if __name__ == "__main__":
    main()
