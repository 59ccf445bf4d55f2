"""The command line: the only place that prints, prompts and exits.

One file per command. Nothing but click is imported until a command runs
(`common.commands.Commands`).
"""

from __future__ import annotations

from mrtuner.cli.common.commands import Commands

__all__ = ["main"]

main = Commands(
    "mrtuner",
    {
        "check": "Find what is wrong with a server, the most urgent first.",
        "tune": "Advise settings for a machine or a running server.",
        "explain": "Explain a parameter and how MrTuner chooses its value.",
        "apply": "Apply the advice to a server, with a way back.",
        "undo": "Undo the last apply.",
        "prove": "Measure the advice against the settings in force.",
        "search": "Search for settings better than the advice, and confirm them.",
        "cpu": "Check whether equal work takes equal time on these vCPUs.",
        "limits": "Find which hard limit was reached: instance, volume, network, CPU.",
        "vacuum": "Advise autovacuum settings by table; check that it keeps up.",
        "record": "Record the history of servers.",
        "history": "Show what was recorded: load, statements, waits, changes.",
        "serve": "Show a history in the browser.",
        "deploy": "Deploy the viewer to AWS Lambda.",
        "export": "Export the last sample to a monitoring system.",
        "mcp": "Serve the answers to agents, by the Model Context Protocol.",
        "demo": "Measure the advice on an embedded server, and write a report.",
        "failover": "Predict, bound and rehearse how long a failover hangs clients.",
        "rotate": "Change an application's password without downtime.",
        "bench": "Compare variants of a server over a grid of loads.",
    },
    {
        "Tune": "tune explain apply undo",
        "Prove": "prove search demo bench",
        "Watch": "record history serve deploy export mcp",
        "Understand": "check limits vacuum cpu",
        "Survive": "failover rotate",
        "Applications": "pods image",
        "Clouds": "rds",
    },
    extensible=True,
    help="""Tune PostgreSQL for the machine it runs on, and prove it.

    \b
    Examples:
      mrtuner check postgresql://postgres@db/app     is it all right?
      mrtuner tune                                   this machine
      mrtuner tune --memory 16GB --cpus 4 --storage ssd --pg 18
      mrtuner tune postgresql://postgres@db/app      a running server
      mrtuner apply postgresql://postgres@db/app
      mrtuner prove --embedded
    """,
)
