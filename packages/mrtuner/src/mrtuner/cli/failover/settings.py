"""`mrtuner failover settings`: a snippet that bounds a hang."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mrtuner.cli.common import options, terminal
from mrtuner.cli.failover import machine

if TYPE_CHECKING:
    from mrtuner.failover.predict.kernel import Kernel


@options.command("settings")
@click.option(
    "--stack",
    required=True,
    metavar="STACK",
    help="Client stack to write settings for, such as psycopg, pgjdbc or pgbouncer.",
)
@options.time_option(
    "--within", "Longest hang allowed in every case that settings can bound.", required=True
)
@options.time_option(
    "--longest-query", "Longest query that may run; needed to limit the wait for answers."
)
@click.option(
    "--hosts", type=click.IntRange(1), default=1, show_default=True,
    help="Number of addresses in the connection string.",
)  # fmt: skip
@machine.kernel_options
@options.json_option
def command(
    stack: str,
    within: float,
    longest_query: float | None,
    hosts: int,
    kernel: Kernel,
    rtt: float | None,
    as_json: bool,
) -> None:
    """Write settings for a client stack that bound a hang, and show what they cost.

    \b
    Examples:
      mrtuner failover settings --stack psycopg --within 20s
      mrtuner failover settings --stack pgjdbc --within 20s --longest-query 15s
      mrtuner failover settings --stack pgbouncer --within 10s --sysctl app-host.txt

    Stacks: libpq, psycopg, sqlalchemy, django, rails, asyncpg, pg8000, pgjdbc, hikaricp, wildfly,
    pgx, node-postgres, npgsql, pgbouncer, oracle, oracle-jdbc, mysql. The snippet goes to stdout;
    its effect and cost go to stderr. It also holds for a path twice as slow and for connections of
    any age. Impossible limits are refused with the reason.
    """
    from mrtuner.failover import text
    from mrtuner.failover.predict.path import Path
    from mrtuner.failover.settings.advice import settings as chosen

    way = Path() if rtt is None else Path(rtt=rtt)
    made = chosen(stack, within, kernel, way, hosts=hosts, longest_query=longest_query)
    if as_json:
        from mrtuner.failover.settings.document import settings_document

        terminal.document(settings_document(made))
        return
    click.echo(made.text + made.sysctl, nl=False)
    terminal.print_notes(text.settings(made))
