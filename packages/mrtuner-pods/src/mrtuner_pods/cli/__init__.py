"""The commands of `mrtuner pods`: one file per command."""

from __future__ import annotations

from mrtuner.cli.common.commands import Commands

__all__ = ["command"]

command = Commands(
    "pods",
    {
        "check": "Check whether the connections of pods fit their database.",
        "plan": "Plan pods, workers, connections, CPU and memory for a load.",
        "measure": "Find what holds an application server back: quota, cpuset, lock, others.",
    },
    package="mrtuner_pods.cli",
    help="""Size application servers: connections, waiting, CPU.

    Here, a pod is a group of workers behind one socket: in Kubernetes, ECS, systemd, or a dyno.

    \b
    Examples:
      mrtuner pods check deployment.yaml --max-connections 200
      mrtuner pods check --pods 6 --workers 4 --pool 5 --database postgresql://postgres@db/app
      mrtuner pods plan --rate 400/s --service-time 27ms --wait-p95 20ms
      mrtuner pods measure --name gunicorn
    """,
)
