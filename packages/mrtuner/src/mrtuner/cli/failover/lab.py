"""`mrtuner failover lab`: break a real primary here, and see what its clients see."""

from __future__ import annotations

import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrtuner.cli.common import exit_codes, options, prerequisites, terminal
from mrtuner.errors import MrTunerError, UsageError

if TYPE_CHECKING:
    from mrtuner.failover.lab.control import Request, Session
    from mrtuner.failover.lab.document import PlayedScenario


@options.command("lab")
@click.option(
    "--scenario", "scenarios", multiple=True, metavar="NAME",
    help="Run this scenario; may be repeated.  [default: stay open for commands]",
)  # fmt: skip
@click.option("--list", "listed", is_flag=True, help="List the scenarios and what breaks in each.")
@options.time_option(
    "--within", "Configure the clients as `settings --within` advises.", default="10s"
)
@click.option(
    "--client", metavar="PARAMETERS",
    help="Configure the clients with these libpq parameters, such as 'connect_timeout=3'.",
)  # fmt: skip
@click.option(
    "--sysctl", "sysctls", multiple=True, metavar="NAME=VALUE",
    help="Kernel setting of the clients' network, such as tcp_retries2=5; may be repeated.",
)  # fmt: skip
@options.time_option(
    "--dns-ttl", "Time to live of the DNS name that points to the primary.", default="5s"
)
@options.time_option("--watch", "Longest wait for a hang to end.", default="3min")
@options.html_option("Write all charts and figures as one HTML page.")
@options.server_bin_option
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    scenarios: tuple[str, ...],
    listed: bool,
    within: float,
    client: str | None,
    sysctls: tuple[str, ...],
    dns_ttl: float,
    watch: float,
    html: Path | None,
    server_bin: Path | None,
    as_json: bool,
) -> None:
    """Break a real primary in namespaces of this machine and watch its clients.

    \b
    Examples:
      mrtuner failover lab --list
      mrtuner failover lab --scenario silent-loss
      mrtuner failover lab --scenario crash --scenario frozen --html lab.html
      mrtuner failover lab --scenario address-move --client '' --sysctl tcp_retries2=5
      mrtuner failover lab                        stays open for commands

    Needs no root and does not change the machine: links, servers and their data are removed
    however the command ends. Hangs are compared with what `predict` says, within 0.1 s; the exit
    code is 1 if one is outside its band.
    """
    from mrtuner.failover.lab.control import Request, parameters, sysctl
    from mrtuner.failover.lab.document import LabDocument

    if listed:
        _list(as_json)
        return
    request = Request(
        within=within, parameters=None if client is None else parameters(client),
        sysctls=dict(map(sysctl, sysctls)), ttl=dns_ttl, watch=watch,
        server_bin=None if server_bin is None else str(server_bin.resolve()),
    )  # fmt: skip
    if not scenarios:
        if html is not None:
            raise UsageError("nothing to report: no scenario was chosen", "Give --scenario NAME.")
        _stay_open(request, as_json)
        return
    write = _writer(html)
    outcomes = list(_played(request, scenarios, as_json))
    if as_json:
        terminal.document(LabDocument(scenarios=outcomes))
    write(outcomes)
    if not all(outcome.fits for outcome in outcomes):
        ctx.exit(exit_codes.FAILED)


def _writer(html: Path | None) -> Callable[[Sequence[PlayedScenario]], None]:
    """Return what writes the page; whether it can is checked before any scenario is played."""
    prerequisites.require(page=html)
    if html is None:
        return lambda _: None
    from mrtuner.failover.lab import page as failover_lab_page

    def write(outcomes: Sequence[PlayedScenario]) -> None:
        terminal.save_and_tell(html, failover_lab_page.page(outcomes))

    return write


def _list(as_json: bool) -> None:
    from mrtuner.failover.lab.scenarios import SCENARIOS
    from mrtuner.text_tables import aligned

    if as_json:
        from mrtuner.documents import convert
        from mrtuner.failover.lab.document import KnownScenario, LabDocument

        known = [convert(one, KnownScenario) for one in SCENARIOS.values()]
        terminal.document(LabDocument(known=known))
        return
    terminal.print_lines(aligned([(one.name, one.words) for one in SCENARIOS.values()]))


def _played(request: Request, names: tuple[str, ...], as_json: bool) -> Iterator[PlayedScenario]:
    """Play scenarios one after the other, each in its own lab, and yield the outcomes."""
    from dataclasses import replace

    from mrtuner.documents import convert
    from mrtuner.failover.lab.control import play
    from mrtuner.failover.lab.document import PlayedScenario
    from mrtuner.failover.lab.scenarios import scenario
    from mrtuner.failover.lab.text import lines

    for name in [scenario(name).name for name in names]:
        with terminal.sigterm_as_interrupt():
            told = play(replace(request, scenario=name), terminal.print_note)
        outcome = convert(told, PlayedScenario)
        if not as_json:
            terminal.print_lines((*lines(outcome), ""))
        yield outcome


def _stay_open(request: Request, as_json: bool) -> None:
    from mrtuner.failover.lab.control import Session

    with terminal.sigterm_as_interrupt():
        try:
            with Session(request) as session:
                terminal.print_note("starting a primary and a standby ...")
                threading.Thread(target=_forward, args=(session,), daemon=True).start()
                for what, content in session.events():
                    _tell(session, what, content, as_json)
                raise session.ended()
        except KeyboardInterrupt:  # the normal way to end the lab
            terminal.print_note("the lab has ended; everything it created was removed")


def _forward(session: Session) -> None:
    with suppress(MrTunerError):  # the lab has ended, which is reported elsewhere
        for line in sys.stdin:
            session.command(line)


def _tell(session: Session, what: str, content: Any, as_json: bool) -> None:
    if what == "ready":
        _say(session, content, as_json)
    elif what == "refused":
        terminal.print_error(*content)
    else:
        terminal.print_note(f"{what}: {content}")


def _say(session: Session, dsns: Mapping[str, str], as_json: bool) -> None:
    from mrtuner.failover.lab.lab import explained
    from mrtuner.text_tables import aligned

    flags = "--user --preserve-credentials --net --mount"
    entrance = f"nsenter --target {session.first()} {flags} --"
    if as_json:
        from mrtuner.failover.lab.document import LabDocument

        terminal.document(LabDocument(enter=entrance, dsns=dict(dsns)))
        return
    terminal.print_line("run a client with:")
    terminal.print_line(f"  {entrance} psql {shlex.quote(dsns['both, read-write'])}")
    terminal.print_lines(aligned([("  " + what, dsn) for what, dsn in dsns.items()]))
    terminal.print_line("type a command; Ctrl-C ends the lab:")
    terminal.print_lines(aligned([("  " + verb, words) for verb, words in explained()]))
