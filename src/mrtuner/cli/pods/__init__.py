"""The commands of `mrtuner pods`: one file a command."""

from __future__ import annotations

from mrtuner.cli.common.commands import Commands

__all__ = ["command"]

command = Commands(
    "pods",
    {
        "check": "Check whether the connections of pods fit their database.",
    },
    package="mrtuner.cli.pods",
    help="""Size application servers: connections, waiting, CPU.

    \b
    Examples:
      mrtuner pods check deployment.yaml --max-connections 200
      mrtuner pods check --pods 6 --workers 4 --pool 5 --database postgresql://postgres@db/app
    """,
)
