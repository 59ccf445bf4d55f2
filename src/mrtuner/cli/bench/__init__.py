"""The commands of `mrtuner bench`: one file a command."""

from __future__ import annotations

from mrtuner.cli.group import Commands

__all__ = ["command"]

command = Commands(
    "bench",
    {
        "init": "Write a plan to begin with.",
        "run": "Run a plan, or go on with one that was interrupted.",
        "report": "What a run shows, as text, JSON or one HTML page.",
        "compare": "Compare two variants without writing a plan.",
        "simulate": "How often each way of benchmarking would be wrong.",
    },
    package="mrtuner.cli.bench",
    help="""Measure variants of a server against each other, over a grid of loads.

    \b
    Examples:
      mrtuner bench init > plan.toml
      mrtuner bench run plan.toml -o run1
      mrtuner bench report run1 --html run1.html
      mrtuner bench compare --a a.conf --b b.conf --workload tpcb --scale 100 --clients 8

    \b
    Exit codes: 0 done, 1 failed, 2 usage, 3 a check found something to do,
    4 refused as unsafe, 5 measured worse, 130 interrupted.
    """,
)
