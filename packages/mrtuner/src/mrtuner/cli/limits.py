"""`mrtuner limits`: which hard limit an instance reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.answers.targets import TargetKind, instance_named, kind_of
from mrtuner.cli.common import check_option, exit_codes, options, prerequisites, progress, terminal
from mrtuner.cli.history.store_options import LONGEST_PERIOD
from mrtuner.errors import UsageError
from mrtuner.facts import Missing

if TYPE_CHECKING:
    from mrtuner.limits import Limits
    from mrtuner.limits.document import FleetInstance

#: Inputs of a single target, with the names that users type.
_OF_ONE: Final = {
    "class_name": "--class", "storage": "--volume", "timezone": "--timezone",
    "throughput_unit": "--throughput-unit", "what_if": "--what-if", "watch": "--watch",
    "history": "--history",
}  # fmt: skip
_UNITS: Final = ("B/s", "kB/s", "KiB/s", "MB/s", "MiB/s")


@options.command("limits")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option(
    "--all", "everything", is_flag=True, help="Check every PostgreSQL instance of the region."
)
@click.option(
    "--class", "class_name", metavar="CLASS", help="Instance class, such as db.r5.2xlarge."
)
@click.option(
    "--volume",
    "storage",
    metavar="VOLUME",
    help="Volume of the instance, such as gp3:500GB,12000iops,500MiB/s.",
)
@click.option(
    "--what-if",
    multiple=True,
    metavar="CLASS|VOLUME",
    help="Also show the same demand on another class, storage, or both; may be repeated.",
)
@options.time_option(
    "--since",
    "How far back to read CloudWatch or the history: 6h, 14d, 60d.",
    most=LONGEST_PERIOD,
    default="14d",
)
@click.option(
    "--max-connections",
    type=click.IntRange(1),
    metavar="N",
    help="max_connections of the server.  [default: estimated from the class]",
)
@click.option(
    "--timezone", metavar="ZONE", help="Time zone of timestamps without one, such as UTC."
)
@click.option(
    "--throughput-unit",
    type=click.Choice(_UNITS),
    metavar="UNIT",
    help="Unit of throughput in the file, if not B/s: kB/s, KiB/s, MB/s or MiB/s.",
)
@options.html_option("Write an HTML page with the ceilings drawn through the series.")
@options.time_option(
    "--watch",
    "Watch a server for this long, one point per second, such as 10m.  [default: report its "
    "ceilings only]",
)
@options.history_options("Use what mrtuner record recorded there about the server's host.")
@check_option.checks("a limit was reached")
@click.option(
    "--example",
    is_flag=True,
    help="Print the metrics of a db.r5.2xlarge that was slow for hours, as CSV.",
)
@click.option(
    "--region",
    "regions",
    multiple=True,
    metavar="REGION",
    help="AWS region; may be repeated with --all.  [default: AWS's configuration]",
)
@click.option("--all-regions", is_flag=True, help="Check every region of the account, with --all.")
@click.option("--profile", metavar="NAME", help="AWS profile to use.  [default: AWS_PROFILE]")
@options.json_option
@click.pass_context
def command(
    ctx: click.Context, /, targets: tuple[str, ...], everything: bool, example: bool,
    html: Path | None, check: check_option.Check, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Find which hard limit was reached, when, and what to change.

    TARGET is one or more RDS instances, by name or as rds:NAME; a file of metrics (CSV, JSON or
    Parquet with CloudWatch's names and units); or a server outside RDS: local, or a connection
    string.

    \b
    Examples:
      mrtuner limits my-instance                     class, storage and CloudWatch looked up
      mrtuner limits my-instance --since 3d --html limits.html
      mrtuner limits metrics.csv --class db.r5.2xlarge \\
          --volume gp3:500GB,12000iops,500MiB/s
      mrtuner limits metrics.csv --class db.r5.2xlarge --what-if db.r6g.4xlarge
      mrtuner limits --example > metrics.csv         a case to try it with
      mrtuner limits --all --since 3d --check        which of the region's instances
      mrtuner limits local --watch 10m               a server on this host, one point per second
      mrtuner limits local --history /var/lib/mrtuner --since 3d
      mrtuner limits postgresql://postgres@db/app    its ceilings, as far as SQL shows them

    A ceiling applies to reads plus writes, so both are needed. A CSV has a column timestamp
    (ISO 8601) and columns under CloudWatch's own names: ReadThroughput, WriteThroughput, ReadIOPS,
    WriteIOPS, and if available DiskQueueDepth, ReadLatency, WriteLatency,
    CPUUtilization, EBSByteBalance%, NetworkReceiveThroughput, NetworkTransmitThroughput.

    A watch on the server's own host reads its block device, control groups, network, CPU and
    memory; from another host, only what SQL shows. Ctrl-C ends it (exit code 130), and so does a
    restart of the server (6); what was measured by then is reported. Nothing is changed.
    """
    if example:
        _example(as_json)
        return
    packages = (*_packages(targets, everything), *(["duckdb"] if given["history"] else []))
    prerequisites.require("numpy", *packages, page=html)
    if everything or len(targets) > 1:
        _tell_fleet(ctx, [instance_named(text) for text in targets], given, html, check, as_json)
    else:
        _tell_one(ctx, next(iter(targets), None), given, html, check, as_json)


def _packages(targets: tuple[str, ...], everything: bool) -> Iterator[str]:
    """Yield the packages needed to read the metrics."""
    if everything or {kind_of(text) for text in targets} & {TargetKind.RDS, TargetKind.NAME}:
        yield "boto3"
    if any(Path(text).suffix.lower() in {".parquet", ".pq"} for text in targets):
        yield "pyarrow"


def _tell_one(
    ctx: click.Context, target: str | None, given: dict[str, Any], html: Path | None,
    check: check_option.Check, as_json: bool,
) -> None:  # fmt: skip
    if target is None:
        raise UsageError(
            "give an instance or a file of metrics",
            "Run mrtuner limits INSTANCE, or mrtuner limits FILE --class CLASS.",
        )
    if given["all_regions"]:
        raise UsageError("--all-regions needs --all", "Add --all, or give one --region.")
    options.warn_of_password(target)
    found = _answer(target, given)
    _tell(found, html, as_json)
    if found.interrupted or found.lost:
        ctx.exit(exit_codes.INTERRUPTED if found.interrupted else exit_codes.UNFINISHED)
    check.conclude(found=bool(found.pegged), unjudged=found.unjudged)


def _answer(target: str, given: dict[str, Any]) -> Limits:
    """Return the answer; if a file's unit cannot be right, ask. WrongUnit without a terminal."""
    from mrtuner.answers import limits
    from mrtuner.limits.metrics.metric_units import WrongUnit

    regions = given["regions"]
    if len(regions) > 1:
        raise UsageError("an instance is in one region", "Give --region once.")
    rest = {name: value for name, value in given.items() if name not in {"regions", "all_regions"}}
    rest["region"] = next(iter(regions), None)
    with terminal.sigterm_as_interrupt(), progress.bar() as shown:
        try:
            return limits(target, **rest, shown=shown.move)
        except WrongUnit as error:
            wrong = error
    if not terminal.is_interactive():
        raise wrong
    terminal.print_note(wrong.message)
    terminal.confirm(f"Read it as {wrong.unit}?", yes=False)
    return limits(target, **rest | {"throughput_unit": wrong.unit})


def _tell_fleet(
    ctx: click.Context, names: Sequence[str], given: dict[str, Any], html: Path | None,
    check: check_option.Check, as_json: bool,
) -> None:  # fmt: skip
    from mrtuner.answers.hard_limits import limits_of_fleet
    from mrtuner.limits.document import fleet_document
    from mrtuner.limits.text import fleet_lines

    if html is not None:
        raise UsageError(
            "--html is for a single instance", "Leave out --html, or name one instance."
        )
    for name, option in _OF_ONE.items():
        if given[name]:
            raise UsageError(f"{option} cannot be used with a fleet", "Leave it out.")
    taken = ("regions", "all_regions", "since", "max_connections", "profile")
    with progress.bar() as shown:

        def move(done: float, of: float, text: str) -> None:
            shown.move(done, of, text)
            if done == of or not done % 100:
                shown.line(text)

        found = limits_of_fleet(names, **{name: given[name] for name in taken}, shown=move)
    told = fleet_document(found.instances, found.start, found.end, found.failures)
    terminal.answer(told, fleet_lines(told), as_json)
    if found.failures:
        ctx.exit(exit_codes.FAILED)
    check.conclude(
        found=any(one.pegged for one in told.instances),
        unjudged=[one for each in told.instances for one in _unjudged(each)],
    )


def _unjudged(told: FleetInstance) -> Iterator[Missing]:
    """Yield what is not known of an instance of a fleet."""
    if told.unknown is not None:
        yield Missing(told.instance, told.unknown)
    for one in told.unjudged:
        yield Missing(f"{told.instance}, {one.name}", one.why, hint=one.supply)


def _tell(found: Limits, html: Path | None, as_json: bool) -> None:
    from mrtuner.limits.document import limits_document
    from mrtuner.limits.text import lines

    told = limits_document(found)
    if html is not None:
        from mrtuner.limits.page import page

        terminal.save_and_tell(html, page(found))
    terminal.answer(told, lines(told), as_json)


def _example(as_json: bool) -> None:
    from mrtuner.limits.examples.week import CLASS, STORAGE, example

    if as_json:
        raise UsageError("--example prints CSV, not JSON", "Leave out --json.")
    click.echo(example(), nl=False)
    terminal.print_note(f"class {CLASS}, storage {STORAGE}")
