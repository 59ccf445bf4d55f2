"""The commands of `mrtuner failover`: one file per command."""

from __future__ import annotations

from mrtuner.cli.common.commands import Commands

command = Commands(
    "failover",
    {
        "predict": "How long a client hangs in each of five cases, and why.",
        "settings": "Write settings for a client stack that bound a hang.",
        "audit": "Show what is in force on live connections.",
        "rehearse": "Let a test server fail over and time it from the client's side.",
        "lab": "Break a real primary on this machine and watch its clients.",
        "self-test": "Compare the predictions with this machine's kernel.",
    },
    package="mrtuner.cli.failover",
    help="""Predict how long a failover hangs clients, and write the settings that bound it.

    \b
    Examples:
      mrtuner failover predict                        libpq on this machine
      mrtuner failover predict --client pgjdbc --sysctl app-host.txt --rtt 1ms
      mrtuner failover predict 'postgresql://app@db/shop?tcp_user_timeout=8500'
      mrtuner failover settings --stack psycopg --within 20s
      mrtuner failover audit --port 5432
      mrtuner failover lab --scenario silent-loss     real servers, here
      mrtuner failover self-test                      predicted against measured, here
    """,
)
