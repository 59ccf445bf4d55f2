"""`mrtuner failover`: how long a dead server hangs clients, and what bounds it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli import options, terminal
from mrtuner.cli.group import Command
from mrtuner.errors import MrTunerError, UsageError

if TYPE_CHECKING:
    from mrtuner.failover.audit import Audit
    from mrtuner.failover.client import Client
    from mrtuner.failover.kernel import Kernel
    from mrtuner.failover.sockets import Options
    from mrtuner.failover.traces import Path as Way

PREDICTED: Final = "mrtuner.failover.predict/1"
AUDITED: Final = "mrtuner.failover.audit/1"
SET: Final = "mrtuner.failover.settings/1"
TESTED: Final = "mrtuner.failover.selftest/1"
FAILED: Final = 1
FOUND: Final = 3


@click.group("failover")
def command() -> None:
    """How long a failover hangs clients, which settings bound it, and what is really in force.

    \b
    Examples:
      mrtuner failover predict                        libpq on this machine
      mrtuner failover predict --client pgjdbc --sysctl app-host.txt --rtt 1ms
      mrtuner failover predict 'postgresql://app@db/shop?tcp_user_timeout=8500'
      mrtuner failover settings --for psycopg --within 20s
      mrtuner failover audit --port 5432
      mrtuner failover self-test                      predicted against measured, here
    """


@command.command("predict", cls=Command)
@click.argument("dsn", required=False)
@click.option("--client", metavar="NAME", help="The driver or pooler.  [default: libpq]")
@click.option(
    "--sysctl", metavar="FILE", default="local", show_default=True,
    help="The client machine's settings: what sysctl -a prints there.",
)  # fmt: skip
@click.option("--rtt", type=options.Duration(), metavar="TIME", help="Round trip to the server.")
@click.option("--kernel", metavar="VERSION", help="With --sysctl FILE: its uname -r.")
@click.option("--hz", type=int, metavar="N", help="With --sysctl FILE: its ticks a second.")
@click.option(
    "--user-timeout", type=options.Duration(), metavar="TIME",
    help="A TCP_USER_TIMEOUT set by other means than the connection string.",
)  # fmt: skip
@click.option(
    "--read-timeout", type=options.Duration(), metavar="TIME",
    help="The client's own limit on each answer, such as pgjdbc's socketTimeout.",
)  # fmt: skip
@click.option("--dns-ttl", type=options.Duration(), metavar="TIME", help="Of the server's name.")
@click.option(
    "--away", type=options.Duration(), metavar="TIME",
    help="Tell when the client notices if the address answers again after that.",
)  # fmt: skip
@options.json_option
def predict(
    dsn: str | None,
    client: str | None,
    sysctl: str,
    rtt: float | None,
    kernel: str | None,
    hz: int | None,
    as_json: bool,
    **limits: float | None,
) -> None:
    """Seconds that each of five cases hangs a client, what decides it, and why.

    \b
    Examples:
      mrtuner failover predict
      mrtuner failover predict --client pgjdbc --read-timeout 30s
      mrtuner failover predict --sysctl app-host.txt --kernel 5.14 --hz 1000 --rtt 1ms
      mrtuner failover predict postgresql://app@db/shop --away 169s

    With a connection string and no --rtt it connects, and takes the round trip, the retransmission
    timeout and the options in force from the live socket. Nothing is changed anywhere.
    """
    from mrtuner.failover import words
    from mrtuner.failover.predict import Situation
    from mrtuner.failover.predict import predict as predicted

    options.careful(dsn)
    away = limits.pop("away")
    machine = _kernel(sysctl, kernel, hz)
    who, way = _client(client, dsn, rtt)
    situation = Situation(kernel=machine, client=_limited(who, limits), path=way, away=away)
    cases = predicted(situation)
    if as_json:
        terminal.document(
            {
                "schema": PREDICTED,
                "kernel": situation.kernel.to_dict(),
                "client": situation.client.to_dict(),
                "path": situation.path.to_dict(),
                "away": away,
                "cases": [case.to_dict() for case in cases],
            }
        )
        return
    for line in words.prediction(situation, cases):
        click.echo(line)


def _kernel(source: str, release: str | None, hz: int | None) -> Kernel:
    """The client machine's kernel."""
    from mrtuner.failover.kernel import ASSUMED_HZ, from_text, local

    if source == "local":
        return local()
    try:
        text = Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MrTunerError(
            f"cannot read {source}: {getattr(error, 'strerror', None) or 'not text'}",
            "Write it on the client machine: sysctl -a > FILE.",
        ) from error
    if hz is None:
        terminal.talk(f"HZ is not in {source}: {ASSUMED_HZ} is assumed, --hz tells it")
    return from_text(text, source, hz=hz or ASSUMED_HZ, release=release)


def _client(name: str | None, dsn: str | None, rtt: float | None) -> tuple[Client, Way]:
    """The client, and its way to the server: told, measured, or that of a local network."""
    from mrtuner.failover.client import configured, defaults
    from mrtuner.failover.traces import Path as Way

    if dsn is None:
        return defaults(name or "libpq"), Way() if rtt is None else Way(rtt=rtt)
    from mrtuner.failover.client import parameters_of

    client = configured(name or "libpq", parameters_of(dsn))
    if rtt is not None:
        return client, Way(rtt=rtt)
    live = _live(dsn)
    return client, Way(rtt=live.rtt, rto=live.rto)


def _live(dsn: str) -> Options:
    """The options of a connection of ours to that server."""
    from mrtuner.failover.sockets import options as read
    from mrtuner.postgres.connect import connect

    with connect(dsn, through_pooler=True) as conn:
        return read(conn.fileno())


def _limited(client: Client, limits: dict[str, float | None]) -> Client:
    """With the limits given as options."""
    from dataclasses import replace

    given: dict[str, Any] = {name: value for name, value in limits.items() if value is not None}
    if "user_timeout" in given:
        given["user_timeout"] = round(given["user_timeout"] * 1000)
    names = {"user_timeout": "tcp_user_timeout"}
    told = {names.get(name, name): "command line" for name in given}
    return replace(client, **given, origin={**client.origin, **told})


@command.command("settings", cls=Command)
@click.option("--for", "stack", required=True, metavar="STACK", help="The client; below.")
@click.option(
    "--within", type=options.Duration(), required=True, metavar="TIME",
    help="No case that can be bounded may hang longer.",
)  # fmt: skip
@click.option(
    "--longest-query", type=options.Duration(), metavar="TIME",
    help="The longest legal query: needed for a limit on answers.",
)  # fmt: skip
@click.option(
    "--hosts", type=click.IntRange(1), default=1, show_default=True,
    help="Addresses in the connection string.",
)  # fmt: skip
@click.option(
    "--sysctl", metavar="FILE", default="local", show_default=True,
    help="The client machine's settings: what sysctl -a prints there.",
)  # fmt: skip
@click.option("--rtt", type=options.Duration(), metavar="TIME", help="Round trip to the server.")
@click.option("--kernel", metavar="VERSION", help="With --sysctl FILE: its uname -r.")
@click.option("--hz", type=int, metavar="N", help="With --sysctl FILE: its ticks a second.")
@options.json_option
def settings(
    stack: str,
    within: float,
    longest_query: float | None,
    hosts: int,
    sysctl: str,
    rtt: float | None,
    kernel: str | None,
    hz: int | None,
    as_json: bool,
) -> None:
    """A ready snippet for a client stack that bounds a hang, with what that costs.

    \b
    Examples:
      mrtuner failover settings --for psycopg --within 20s
      mrtuner failover settings --for pgjdbc --within 20s --longest-query 15s
      mrtuner failover settings --for pgbouncer --within 10s --sysctl app-host.txt

    Stacks: libpq, psycopg, sqlalchemy, django, rails, pgjdbc, hikaricp, wildfly, pgx,
    node-postgres, npgsql, pgbouncer, oracle, mysql. The snippet goes to stdout, what it gives
    and costs to stderr. What cannot be had is refused with the reason.
    """
    from mrtuner.failover import words
    from mrtuner.failover.settings import settings as chosen
    from mrtuner.failover.traces import Path as Way

    machine, way = _kernel(sysctl, kernel, hz), Way() if rtt is None else Way(rtt=rtt)
    made = chosen(stack, within, machine, way, hosts=hosts, longest_query=longest_query)
    if as_json:
        terminal.document({"schema": SET, **made.to_dict()})
        return
    click.echo(made.text + made.sysctl, nl=False)
    for line in words.settings(made):
        terminal.talk(line)


@command.command("audit", cls=Command)
@click.argument("target", required=False, metavar="[DSN|PID]")
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="PORT",
    help="Every connection from this machine to that port.",
)  # fmt: skip
@click.option(
    "--within", type=options.Duration(), default="60s", show_default=True, metavar="TIME",
    help="A longer hang is a finding.",
)  # fmt: skip
@options.json_option
@click.pass_context
def audit(
    ctx: click.Context, /, target: str | None, port: int | None, within: float, as_json: bool
) -> None:
    """What is really in force on live connections, at the server, and in between.

    \b
    Examples:
      mrtuner failover audit --port 5432              all that are open from here
      mrtuner failover audit 4711                     of one process
      mrtuner failover audit postgresql://app@db/shop as this string connects; the server too

    Options and timers are read from the sockets, not from files. Sockets of other users need root.
    A connection string leads to one connection and one query of ours. Ends with 3 when a silent
    server would hang a connection longer than --within, or when nothing ends ghost backends.
    """
    from mrtuner.failover import words

    if (target is None) is (port is None):
        raise UsageError("nothing to look at", "Give a connection string, a PID, or --port 5432.")
    done = _audited(target, port, within)
    if as_json:
        terminal.document({"schema": AUDITED, **done.to_dict()})
    else:
        for line in words.audit(done):
            click.echo(line)
    if done.found:
        ctx.exit(FOUND)


def _audited(target: str | None, port: int | None, within: float) -> Audit:
    from mrtuner.failover import live
    from mrtuner.failover.audit import audit as judged
    from mrtuner.failover.kernel import local

    if target is not None and not target.isdigit():
        return _session(target, within)
    found = live.to_port(port) if port is not None else live.of_process(int(target or 0))
    if not found:
        whose = f"to port {port}" if port is not None else f"of process {target}"
        raise MrTunerError(
            f"no TCP connection {whose} is open here",
            "Containers have networks of their own: nsenter -t PID -n mrtuner failover audit …",
        )
    return judged(found, local(), within)


def _session(dsn: str, within: float) -> Audit:
    """A connection of ours, as this string makes it, and what its server says."""
    from mrtuner.failover.audit import audit as judged
    from mrtuner.failover.kernel import local
    from mrtuner.failover.session import look

    options.careful(dsn)
    seen = look(dsn)
    return judged([seen.connection], local(), within, server=seen.settings, between=seen.between)


@command.command("self-test", cls=Command)
@options.json_option
@click.pass_context
def self_test(ctx: click.Context, /, as_json: bool) -> None:
    """Hold a part of the predictions against this machine's kernel: some 7 s, no root needed.

    \b
    Examples:
      mrtuner failover self-test
      mrtuner failover self-test --json

    A client, a router and a server in network namespaces of our own; the router drops everything.
    Nothing of the machine changes and nothing is left. Ends with 1 when a hang lies outside its
    band by more than 0.1 s: then do not trust the predictions for this kernel.
    """
    from mrtuner.failover import selftest

    terminal.talk("measuring, some 7 s ...")
    done = selftest.run()
    if as_json:
        terminal.document({"schema": TESTED, **done.to_dict()})
    else:
        for line in done.lines():
            click.echo(line)
    if not done.fits:
        ctx.exit(FAILED)
