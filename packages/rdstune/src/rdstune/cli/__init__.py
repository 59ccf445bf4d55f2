"""The commands of `rdstune`, which are those of `mrtuner rds`: one file per command."""

from __future__ import annotations

from mrtuner.cli.common.commands import Commands

__all__ = ["rdstune"]

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
    package="rdstune.cli",
    short_help="Manage parameter groups of Amazon RDS and Aurora (rdstune).",
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
