"""The commands of `mrtuner bench`: one file per command."""

from __future__ import annotations

from mrtuner.cli.common.commands import Commands

command = Commands(
    "bench",
    {
        "init": "Write a plan to start from.",
        "run": "Run a plan, or continue an interrupted run.",
        "report": "Show a run as text, JSON or an HTML page.",
        "compare": "Compare two variants without writing a plan.",
    },
    package="mrtuner.cli.bench",
    help="""Compare variants of a server over a grid of loads.

    \b
    Examples:
      mrtuner bench init > plan.toml
      mrtuner bench run plan.toml --dir run1
      mrtuner bench report run1 --html run1.html
      mrtuner bench compare --a a.conf --b b.conf --load tpcb --scale 100 --clients 8
    """,
)
