"""`mrtuner failover audit`: what is really in force."""

from __future__ import annotations

import click

from mrtuner.cli.common import check_option, options, targets, terminal


@options.command("audit")
@click.argument("target", type=targets.ServerArgument(), required=False, metavar="[DSN|PID]")
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="PORT",
    help="Audit every connection from this machine to this port.",
)  # fmt: skip
@options.time_option(
    "--within", "Report connections that may hang longer than this.", default="60s"
)
@check_option.checks("a connection may hang longer, or backends without clients are never ended")
@options.json_option
def command(
    target: str | None,
    port: int | None,
    within: float,
    check: check_option.Check,
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
    a silent server would hang a connection longer than --within. With a connection string, it is
    also 3 if the server never ends backends without clients.
    """
    from mrtuner.answers import audit
    from mrtuner.failover import text

    pid = int(target) if target is not None and target.isdigit() else None
    dsn = target if pid is None else None
    options.warn_of_password(dsn)
    done = audit(dsn, pid=pid, port=port, within=within)
    if as_json:
        from mrtuner.failover.audit.document import audit_document

        terminal.document(audit_document(done))
    else:
        terminal.print_lines(text.audit(done))
    check.conclude(found=done.found, unjudged=done.unjudged)
