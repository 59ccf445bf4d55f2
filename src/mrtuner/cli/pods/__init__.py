"""The commands of `mrtuner pods`: one file a command."""

from __future__ import annotations

from mrtuner.cli.common.commands import Commands

__all__ = ["command"]

command = Commands(
    "pods",
    {
        "plan": "Plan pods, workers, connections, CPU and memory for a load.",
    },
    package="mrtuner.cli.pods",
    help="""Size application servers: connections, waiting, CPU.

    \b
    Examples:
      mrtuner pods plan --rate 400/s --service-time 27ms --wait-p95 20ms
    """,
)
