"""The command line: the only place that prints, prompts and exits.

One file per command. Nothing but click is imported until a command runs
(`common.commands.Commands`).
"""

from __future__ import annotations

from mrtuner.cli.common.commands import Commands

__all__ = ["main", "rdstune"]

main = Commands(
    "mrtuner",
    {
        "tune": "Advise settings for a machine or a running server.",
        "explain": "Explain a parameter and how MrTuner chooses its value.",
        "apply": "Apply the advice to a server, with a way back.",
        "undo": "Undo the last apply.",
        "prove": "Measure the advice against the settings in force.",
        "pods": "Size application servers: connections, waiting, CPU.",
        "cpu": "Check whether equal work takes equal time on these vCPUs.",
        "limits": "Find which hard limit was reached: instance, volume, network, CPU.",
        "vacuum": "Advise autovacuum settings by table; check that it keeps up.",
        "record": "Record the history of servers.",
        "history": "Show what was recorded: load, statements, waits, changes.",
        "serve": "Show a history in the browser.",
        "deploy": "Deploy the viewer to AWS Lambda.",
        "export": "Export the last sample to a monitoring system.",
        "demo": "Measure the advice on an embedded server, and write a report.",
        "failover": "Predict, bound and rehearse how long a failover hangs clients.",
        "rotate": "Change an application's password without downtime.",
        "bench": "Compare variants of a server over a grid of loads.",
        "image": "Show what one changed line costs in a container image.",
        "rds": "Manage parameter groups of Amazon RDS and Aurora (rdstune).",
    },
    {
        "Tune": "tune explain apply undo",
        "Prove": "prove demo bench",
        "Watch": "record history serve deploy export",
        "Understand": "limits vacuum cpu",
        "Survive": "failover rotate",
        "Applications": "pods image",
        "Clouds": "rds",
    },
    help="""Tune PostgreSQL for the machine it runs on, and prove it.

    \b
    Examples:
      mrtuner tune                                   this machine
      mrtuner tune --memory 16GB --cpus 4 --storage ssd --pg 18
      mrtuner tune postgresql://postgres@db/app      a running server
      mrtuner explain work_mem
      mrtuner apply postgresql://postgres@db/app
      mrtuner prove --embedded
    """,
)

rdstune = Commands(
    "rdstune",
    {
        "show": "Show the parameter group for a class: formulas and their values.",
        "evaluate": "Evaluate a formula on one class, or on all.",
        "lint": "Check a group, or a file that defines one, for mistakes.",
        "diff": "Compare the group, the running server and the advice.",
        "apply": "Change an instance's parameter group, with a way back.",
        "undo": "Undo the last apply.",
        "render": "Write the group for Terraform, CloudFormation, CDK, Pulumi, AWS CLI.",
        "maintenance": "List, stagger and rehearse pending maintenance.",
        "snapshots": "Copy snapshots to another region.",
        "audit": "Audit every instance: class, group, drift, pending reboots, memory.",
        "policy": "Print the least IAM policy that a command needs.",
        "lab": "Run a local stand-in for RDS with real PostgreSQL behind it.",
    },
    package="mrtuner.cli.rds",
    help="""Parameter groups of Amazon RDS and Aurora that are right for every class.

    \b
    Examples:
      rdstune show --class db.r6g.xlarge --family postgres17 --workload oltp
      rdstune evaluate '{DBInstanceClassMemory/32768}' --class db.m7g.large
      rdstune lint my-group.tf
      rdstune diff my-instance
      rdstune apply my-instance
      rdstune lab start                              try it without an account
    """,
)
