"""The commands of `mrtuner image`: one file per command."""

from __future__ import annotations

from mrtuner.cli.common.commands import Commands

__all__ = ["command"]

command = Commands(
    "image",
    {
        "cost": "Show what one changed line costs: sent, rebuilt and pushed.",
        "advise": "Advise changes that make deploys cheaper, each as a patch.",
    },
    package="mrtuner_image.cli",
    short_help="Show what one changed line costs in a container image.",
    help="""Show what a change costs in a container image, and how to make it cheaper.

    \b
    Examples:
      mrtuner image cost .
      mrtuner image cost app --file app/Dockerfile.release
      mrtuner image advise app
    """,
)
