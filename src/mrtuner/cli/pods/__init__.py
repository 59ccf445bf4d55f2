"""The commands of `mrtuner pods`: one file a command."""

from __future__ import annotations

from mrtuner.cli.common.commands import Commands

__all__ = ["command"]

command = Commands(
    "pods",
    {
        "measure": "Find what holds an application server back: quota, cpuset, lock, others.",
    },
    package="mrtuner.cli.pods",
    help="""Size application servers: connections, waiting, CPU.

    Pods are workers behind one socket: of Kubernetes, ECS, systemd, or dynos.

    \b
    Examples:
      mrtuner pods measure 4711                       a process and its children
      mrtuner pods measure --name gunicorn
    """,
)
