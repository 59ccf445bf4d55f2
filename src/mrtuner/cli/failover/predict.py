"""`mrtuner failover predict`: seconds for each case, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mrtuner.cli.common import options, targets, terminal
from mrtuner.cli.failover import machine

if TYPE_CHECKING:
    from mrtuner.failover.predict.client import Client
    from mrtuner.failover.predict.kernel import Kernel
    from mrtuner.failover.predict.path import Path


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

    With a connection string and no --rtt it connects, reads the round trip and the retransmission
    timeout from the live socket, and reports whether a pooler or proxy stands in between. Nothing
    is changed.
    """
    from mrtuner.failover import text
    from mrtuner.failover.predict.hang_times import Situation
    from mrtuner.failover.predict.hang_times import predict as predicted

    options.warn_of_password(dsn)
    away = limits.pop("away")
    who, way, between = _client(client, dsn, rtt)
    situation = Situation(kernel=kernel, client=_limited(who, limits), path=way, away=away)
    cases = predicted(situation)
    if as_json:
        from mrtuner.failover.predict.document import predict_document

        terminal.document(predict_document(situation, cases, between))
        return
    for line in text.prediction(situation, cases, between):
        terminal.print_line(line)


def _client(
    name: str | None, dsn: str | None, rtt: float | None
) -> tuple[Client, Path, str | None]:
    """The client, its path to the server (given, measured or usual), and what is in between."""
    from mrtuner.failover.predict.client import configured, defaults
    from mrtuner.failover.predict.path import Path

    if dsn is None:
        return defaults(name or "libpq"), Path() if rtt is None else Path(rtt=rtt), None
    from mrtuner.failover.predict.client import parameters_of

    client = configured(name or "libpq", parameters_of(dsn))
    if rtt is not None:
        return client, Path(rtt=rtt), None
    from mrtuner.failover.audit.session import met

    live, between = met(dsn)
    return client, Path(rtt=live.rtt, rto=live.rto, same=False), between


def _limited(client: Client, limits: dict[str, float | None]) -> Client:
    """Return the client with the limits given as options."""
    from dataclasses import replace

    given: dict[str, Any] = {name: value for name, value in limits.items() if value is not None}
    if "user_timeout" in given:
        given["user_timeout"] = round(given["user_timeout"] * 1000)
    names = {"user_timeout": "tcp_user_timeout"}
    told = {names.get(name, name): "command line" for name in given}
    return replace(client, **given, origin={**client.origin, **told})
