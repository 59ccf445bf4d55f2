"""`mrtuner record`: sample servers until stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mrtuner.answers.targets import TargetKind, instance_named, kind_of
from mrtuner.cli.common import options, prerequisites, targets, terminal
from mrtuner.cli.common.aws_options import account_options
from mrtuner.cli.common.stopping import stop_event
from mrtuner.cli.history.store_options import directory_option
from mrtuner.errors import MrTunerError, UsageError

if TYPE_CHECKING:
    from mrtuner.aws.session import Account
    from mrtuner.history.recording.managed import ManagedInstance
    from mrtuner.history.recording.recorder import Instance

#: The same as in mrtuner.history.recording.budget, which is not loaded for a help text.
_BUDGET: Final = 0.01


@options.command("record")
@click.argument("targets_given", nargs=-1, metavar="[TARGET]...")
@directory_option
@options.path_option(
    "--config", "FILE",
    'File in TOML with a table [instances]: NAME = "connection string"; and a table [rds]: '
    'NAME = "identifier".',
)  # fmt: skip
@click.option(
    "--name",
    metavar="NAME",
    help="Name of the instance in the history.  [default: HOST:PORT, or the name in RDS]",
)
@options.path_option("--metrics", "DIR", "Directory with your own SQL files to sample as well.")
@click.option(
    "--all-databases", is_flag=True,
    help="Sample tables, indexes, bloat and sequences of all databases of each server, over one "
         "more connection.",
)  # fmt: skip
@options.share_option(
    "--budget", "Share of one session's time that sampling may take.", default=f"{_BUDGET:.0%}"
)
@click.option(
    "--max-size",
    metavar="SIZE",
    help="Delete the oldest rows once the files exceed this, such as 10GB.  [default: no limit]",
)
@click.option(
    "--publish", metavar="URL",
    help="Copy each completed hour to s3://BUCKET/PREFIX, which several recorders may share.",
)  # fmt: skip
@account_options
@options.time_option(
    "--for", "Stop after this long.  [default: record until stopped]", name="duration"
)
@options.json_option
def command(
    targets_given: tuple[str, ...], directory: Path | None, config: Path | None, name: str | None,
    metrics: Path | None, all_databases: bool, budget: float, max_size: str | None,
    publish: str | None, account: Account, duration: float | None, as_json: bool,
) -> None:  # fmt: skip
    """Record the history of servers, until stopped.

    TARGET is a connection string, local, or rds:NAME for an instance of Amazon RDS, whose metrics
    and events then come from AWS, every five minutes. On a server, sessions are sampled every
    second; statements, waits, I/O, WAL, checkpoints, tables, replication and settings every minute
    or less often; and on its own host, the host every 15 s.

    \b
    Examples:
      mrtuner record postgresql://monitor@db/app
      mrtuner record postgresql://monitor@db1/app postgresql://monitor@db2/app --max-size 10GB
      mrtuner record --name shop postgresql://monitor@shop.example/app rds:shop-prod
      mrtuner record --config fleet.toml --dir /var/lib/mrtuner
      mrtuner record local --for 10min
      mrtuner history show                           what was recorded

    The role should be a member of pg_monitor; what it may not read is reported, and the rest is
    recorded. Nothing is changed on the server. Ctrl-C and SIGTERM end it without losing anything;
    --json then writes what mrtuner history size writes.
    """
    instances, managed = _instances(targets_given, config, name)
    prerequisites.require("duckdb", *(["boto3"] if managed or publish else []))
    from mrtuner.history.directory import history_directory
    from mrtuner.history.recording.recorder import RecordingLimits, record
    from mrtuner.history.recording.source import built_in, in_directory, installed, of_program
    from mrtuner.history.store.writer import Writer
    from mrtuner.limits.recorded_ceilings import CEILINGS
    from mrtuner.units import parse_bytes

    sources = {
        **built_in(), "ceilings": of_program("ceilings", CEILINGS), **installed(),
        **(in_directory(metrics) if metrics else {}),
    }  # fmt: skip
    fleet = None
    if managed:
        from mrtuner.history.recording.managed import CLOUDWATCH, managed_fleet

        sources["cloudwatch"] = CLOUDWATCH
        fleet = managed_fleet(managed, account)
    largest = None if max_size is None else int(parse_bytes(max_size))
    limits = RecordingLimits(
        budget=budget, largest=largest, hourly=publish is not None, all_databases=all_databases
    )
    place = history_directory(directory)
    publisher = None if publish is None else _publisher(publish, place, account)
    with Writer(place, sources.values()) as writer, stop_event(duration) as stop:
        terminal.print_note(f"recording into {place}; Ctrl-C ends it")
        before = _last_samples(place)
        record(
            writer, instances, stop, managed=fleet, publish=publisher, limits=limits,
            tell=terminal.print_note,
        )  # fmt: skip
    if as_json:
        from mrtuner.documents import as_builtins
        from mrtuner.history.store.status import size

        terminal.answer(as_builtins(size(place)), (), as_json)
    if _last_samples(place) <= before:
        raise MrTunerError(
            "nothing was recorded", f"See why with mrtuner history status --dir {place}."
        )
    terminal.print_note(f"stopped; see what was recorded: mrtuner history show --dir {place}")


def _last_samples(place: Path) -> set[tuple[str, str, datetime]]:
    from mrtuner.history.store.status import status

    found = status(place, 0.0).sources
    return {(one.instance, one.source, one.last) for one in found if one.last is not None}


def _publisher(url: str, directory: Path, account: Account) -> Callable[[], object]:
    """Return what publishes the store's new files; an invalid address is refused now."""
    from mrtuner.aws.session import client
    from mrtuner.history.store import s3

    lake, service = s3.place_of(url), client("s3", account)
    return lambda: s3.publish(directory, lake, service)


def _instances(
    given: Sequence[str], config: Path | None, name: str | None
) -> tuple[list[Instance], list[ManagedInstance]]:
    """The servers to connect to, and those read from AWS; a name may be in both, for one server."""
    from mrtuner.history.fleet_file import instance_of, managed_of, read_fleet

    of_rds = [text for text in given if kind_of(text) is TargetKind.RDS]
    servers = [
        targets.ServerArgument().convert(text, None, None) for text in given if text not in of_rds
    ]
    if name is not None and (len(servers) > 1 or len(of_rds) > 1 or not given or config):
        raise UsageError("--name is for a single target", "Name several in a file: --config.")
    for text in servers:
        options.warn_of_password(text)
    found = [instance_of(text, name) for text in servers]
    managed = [managed_of(instance_named(text), name) for text in of_rds]
    if config is not None:
        listed = read_fleet(config)
        found, managed = found + listed.instances, managed + listed.managed
    if not found and not managed:
        raise UsageError("no server to record", "Run mrtuner record DSN, or give --config FILE.")
    for names in ([one.name for one in found], [one.name for one in managed]):
        if twice := sorted({one for one in names if names.count(one) > 1}):
            raise UsageError(f"two servers are named {twice[0]}", "Name them in a file: --config.")
    return found, managed
