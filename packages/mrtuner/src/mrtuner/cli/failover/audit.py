"""`mrtuner failover audit`: what is really in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mrtuner.cli.common import checks, options, targets, terminal
from mrtuner.errors import MrTunerError, UsageError

if TYPE_CHECKING:
    from mrtuner.failover.audit.check import Audit


@options.command("audit")
@click.argument("target", type=targets.ServerArgument(), required=False, metavar="[DSN|PID]")
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="PORT",
    help="Audit every connection from this machine to this port.",
)  # fmt: skip
@options.time_option(
    "--within", "Report connections that may hang longer than this.", default="60s"
)
@checks.check_option("a connection may hang longer, or backends without clients are never ended")
@options.json_option
def command(
    target: str | None,
    port: int | None,
    within: float,
    check: checks.Check,
    as_json: bool,
) -> None:
    """Show what is in force on live connections, at the server, and in between.

    \b
    Examples:
      mrtuner failover audit --port 5432              all that are open from here
      mrtuner failover audit --port 5432 --within 20s --check
      mrtuner failover audit 4711                     of one process
      mrtuner failover audit postgresql://app@db/shop a connection like this one, and the server

    Options and timers are read from the sockets, not from files. Sockets of other users need root.
    A connection string opens one connection and runs one query. With --check the exit code is 3 if
    a silent server would hang a connection longer than --within, or if backends without clients
    are never ended.
    """
    from mrtuner.failover import text

    if (target is None) is (port is None):
        raise UsageError("nothing to audit", "Give a connection string, a PID, or --port 5432.")
    done = _audited(target, port, within)
    if as_json:
        from mrtuner.failover.audit.document import audit_document

        terminal.document(audit_document(done))
    else:
        for line in text.audit(done):
            terminal.print_line(line)
    check.conclude(found=done.found, unjudged=done.unjudged)


def _audited(target: str | None, port: int | None, within: float) -> Audit:
    from mrtuner.failover.audit import connections
    from mrtuner.failover.audit.check import audit as judged
    from mrtuner.failover.predict.kernel import local

    if target is not None and not target.isdigit():
        return _session(target, within)
    found = (
        connections.to_port(port) if port is not None else connections.of_process(int(target or 0))
    )
    if not found:
        whose = f"to port {port}" if port is not None else f"of process {target}"
        raise MrTunerError(
            f"no open TCP connection {whose} on this machine",
            "For a container, use its network namespace: nsenter -t PID -n mrtuner failover "
            "audit …",
        )
    return judged(found, local(), within)


def _session(dsn: str, within: float) -> Audit:
    """Audit a connection that this string opens, and the settings of its server."""
    from mrtuner.failover.audit.check import audit as judged
    from mrtuner.failover.audit.session import look
    from mrtuner.failover.predict.kernel import local

    options.warn_of_password(dsn)
    seen = look(dsn)
    return judged([seen.connection], local(), within, server=seen.settings, between=seen.between)
