"""The command line: the only place that prints, prompts and exits.

One file a command. Nothing but click is imported until a command runs (`group.Commands`).
"""

from __future__ import annotations

from mrtuner.cli.group import Commands

__all__ = ["main", "rdstune"]

main = Commands(
    "mrtuner",
    {
        "tune": "Advise settings for a machine or a running server.",
        "explain": "What a parameter is, and how MrTuner chooses it.",
        "apply": "Put the advice into force, with a way back.",
        "undo": "Put back what the last apply changed.",
        "prove": "Measure the advice against the settings in force.",
        "cpu": "Whether equal work takes equal time on these vCPUs.",
        "limits": "Which hard limit was reached: instance, volume, network, CPU.",
        "vacuum": "What autovacuum needs, table by table, and whether it keeps up.",
        "demo": "Tune and measure a server of its own; leave a report.",
        "failover": "How long a failover hangs clients, and what bounds it.",
        "rotate": "Change an application's password without downtime.",
        "bench": "Measure variants against each other over a grid of loads.",
        "rds": "Amazon RDS and Aurora: what rdstune does.",
    },
    help="""Set PostgreSQL right for the machine it is on, and prove it.

    \b
    Examples:
      mrtuner tune                                   this machine
      mrtuner tune --memory 16GB --cpus 4 --storage ssd --pg 18
      mrtuner tune postgresql://postgres@db/app      a running server
      mrtuner explain work_mem
      mrtuner apply postgresql://postgres@db/app
      mrtuner prove --embedded

    \b
    Exit codes: 0 done, 1 failed, 2 usage, 3 a check found something to do,
    4 refused as unsafe, 5 measured worse, 130 interrupted.
    """,
)

rdstune = Commands(
    "rdstune",
    {
        "show": "The parameter group for a class: formulas, and what each gives.",
        "evaluate": "What a formula gives on a class, or on all of them.",
        "lint": "Look for mistakes in a group or in a file that makes one.",
        "diff": "What the group says, what runs, and what we advise.",
        "apply": "Change an instance's parameter group, with a way back.",
        "undo": "Put back what the last apply changed.",
        "render": "The group for Terraform, CloudFormation, CDK, Pulumi, the AWS CLI.",
        "maintenance": "What AWS will do, when, and what it will cost; rehearse it.",
        "snapshots": "Copy snapshots to another region.",
        "audit": "Every instance: class, group, drift, waiting reboots, memory.",
        "policy": "The least IAM policy that a command needs.",
        "lab": "A local stand-in for RDS with real PostgreSQL behind it.",
    },
    package="mrtuner.cli.rds",
    help="""Parameter groups of Amazon RDS and Aurora that stay right on every class.

    \b
    Examples:
      rdstune show --class db.r6g.xlarge --family postgres17 --workload oltp
      rdstune evaluate '{DBInstanceClassMemory/32768}' --class db.m7g.large
      rdstune lint my-group.tf
      rdstune diff my-instance
      rdstune apply my-instance
      rdstune lab start                              try it without an account

    \b
    Exit codes: 0 done, 1 failed, 2 usage, 3 a check found something to do,
    4 refused as unsafe, 5 measured worse, 130 interrupted.
    """,
)
