"""`mrtuner failover predict`: seconds for each case, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mrtuner.cli.common import options, targets, terminal
from mrtuner.cli.failover import machine

if TYPE_CHECKING:
    from mrtuner.failover.predict.kernel import Kernel


@options.command("predict")
@click.argument("dsn", type=targets.ServerArgument(), required=False)
@click.option("--client", metavar="NAME", help="Driver or pooler of the client.  [default: libpq]")
@machine.kernel_options
@options.time_option(
    "--user-timeout", "A TCP_USER_TIMEOUT that is not set in the connection string."
)
@options.time_option(
    "--read-timeout",
    "The client's own limit on waiting for an answer, such as pgjdbc's socketTimeout.",
)
@options.time_option("--dns-ttl", "Time to live of the server's DNS name.")
@options.time_option(
    "--away",
    "Also predict when the client notices that the address responds again after this long.",
)
@options.json_option
def command(
    dsn: str | None,
    client: str | None,
    kernel: Kernel,
    rtt: float | None,
    as_json: bool,
    **limits: float | None,
) -> None:
    """How long a client hangs in each of five cases, what decides it, and why.

    \b
    Examples:
      mrtuner failover predict
      mrtuner failover predict --client pgjdbc --read-timeout 30s
      mrtuner failover predict --sysctl app-host.txt --kernel 5.14 --hz 1000 --rtt 1ms
      mrtuner failover predict postgresql://app@db/shop --away 169s
      mrtuner failover predict 'jdbc:postgresql://db/shop?socketTimeout=30'

    A connection string counts with what libpq adds: services and variables such as PGHOST. With one
    and no --rtt it connects, reads the round trip and the retransmission
    timeout from the live socket, and reports whether a pooler or proxy stands in between. Nothing
    is changed.
    """
    from mrtuner.answers import failover
    from mrtuner.failover import text

    options.warn_of_password(dsn)
    found = failover(dsn, client=client or "libpq", kernel=kernel, rtt=rtt, **limits)
    if as_json:
        from mrtuner.failover.predict.document import predict_document

        terminal.document(predict_document(found.situation, found.cases, found.between))
        return
    terminal.print_lines(text.prediction(found.situation, found.cases, found.between))
