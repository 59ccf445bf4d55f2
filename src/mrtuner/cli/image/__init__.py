"""The commands of `mrtuner image`: one file a command."""

from __future__ import annotations

from mrtuner.cli.common.commands import Commands

__all__ = ["command"]

command = Commands(
    "image",
    {
        "cost": "Show what one changed line costs: sent, rebuilt and pushed.",
        "advise": "Advise what would make deploys cheaper, each change as a patch.",
        "prove": "Build and push two forms of an image, and count what each change costs.",
    },
    package="mrtuner.cli.image",
    help="""Show what a change costs in a container image, and prove what would save it.

    \b
    Examples:
      mrtuner image cost .
      mrtuner image cost app --file app/Dockerfile.release
      mrtuner image advise app
      mrtuner image prove app --patch advice.patch
    """,
)
