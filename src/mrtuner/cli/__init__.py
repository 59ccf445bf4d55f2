"""The command line: the only place that prints, prompts and exits.

One file a command. Nothing but click is imported until a command runs (`group.Commands`).
"""

from __future__ import annotations

from mrtuner.cli.group import Commands, NotYet

__all__ = ["main", "rdstune"]

main = Commands(
    "mrtuner",
    {
        "tune": "Advise settings for a machine or a running server.",
        "explain": "What a parameter is, and how MrTuner chooses it.",
        "apply": "Put the advice into force, with a way back.",
        "undo": "Put back what the last apply changed.",
        "prove": "Measure the advice against the settings in force.",
        "demo": "Tune and measure a server of its own; leave a report.",
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

rdstune = NotYet(
    "rdstune",
    "the RDS commands are not in this version",
    "Use mrtuner tune with the instance's address: it reads RDS servers over SQL.",
    help="""MrTuner for Amazon RDS: not in this version.

    \b
    Examples:
      mrtuner tune postgresql://master@instance/app  advice for a running instance
    """,
)
