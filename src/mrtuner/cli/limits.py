"""`mrtuner limits`: which hard limit an instance was at."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli import options, terminal
from mrtuner.cli.group import INTERRUPTED
from mrtuner.errors import BadValue, UsageError

if TYPE_CHECKING:
    from mrtuner.limits import Limits, Series

FOUND: Final = 3
_UNITS: Final = ("B/s", "kB/s", "KiB/s", "MB/s", "MiB/s")


class _Watch(options.Duration):
    """The same durations, and ``10m`` for minutes as people write it."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The duration in seconds, above zero."""
        text = str(value).strip()
        minutes = text.endswith("m") and text[:-1].strip().replace(".", "", 1).isdigit()
        return super().convert(f"{text}in" if minutes else value, param, ctx)


@options.command("limits")
@click.argument("instance", required=False)
@click.option(
    "--metrics",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="CSV, JSON or Parquet with CloudWatch's names and units.",
)
@click.option("--class", "class_name", metavar="CLASS", help="Such as db.r5.2xlarge.")
@click.option("--storage", metavar="VOLUME", help="Such as gp3:500GB,12000iops,500MiB/s.")
@click.option(
    "--what-if",
    multiple=True,
    metavar="CLASS|VOLUME",
    help="The same demand under another class, storage, or both; repeatable.",
)
@click.option(
    "--since",
    default="14d",
    show_default=True,
    metavar="TIME",
    help="How far back CloudWatch is asked: 6h, 14d, 60d.",
)
@click.option(
    "--max-connections",
    type=click.IntRange(1),
    metavar="N",
    help="Of the server.  [default: what the class gives, estimated]",
)
@click.option("--timezone", metavar="ZONE", help="Of timestamps that name none, such as UTC.")
@click.option(
    "--throughput-unit",
    type=click.Choice(_UNITS),
    metavar="UNIT",
    help="Of the file, where it is not B/s: kB/s, KiB/s, MB/s or MiB/s.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a page with the picture: ceilings drawn through the series.",
)
@click.option(
    "--watch", type=_Watch(), metavar="TIME",
    help="Of a server: watch it for so long, a point a second, such as 10m.  [default: only tell "
    "the ceilings]",
)  # fmt: skip
@click.option("--check", is_flag=True, help="Exit with 3 when a limit was reached.")
@click.option(
    "--example",
    is_flag=True,
    help="Print the metrics of a db.r5.2xlarge that was slow for hours, as CSV.",
)
@click.option("--region", metavar="REGION", help="AWS region.  [default: AWS's configuration]")
@click.option("--profile", metavar="NAME", help="AWS profile.  [default: AWS_PROFILE]")
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    instance: str | None,
    metrics: Path | None,
    class_name: str | None,
    storage: str | None,
    what_if: tuple[str, ...],
    since: str,
    max_connections: int | None,
    timezone: str | None,
    throughput_unit: str | None,
    output: Path | None,
    watch: float | None,
    check: bool,
    example: bool,
    region: str | None,
    profile: str | None,
    as_json: bool,
) -> None:
    """Which hard limit is it? What was pegged, when, what binds, and the way out.

    INSTANCE is one of RDS; or a server that is not on RDS: local, or a connection string.

    \b
    Examples:
      mrtuner limits my-instance                     class, storage and CloudWatch looked up
      mrtuner limits my-instance --since 3d -o limits.html
      mrtuner limits --metrics metrics.csv --class db.r5.2xlarge \\
          --storage gp3:500GB,12000iops,500MiB/s
      mrtuner limits --metrics metrics.csv --class db.r5.2xlarge --what-if db.r6g.4xlarge
      mrtuner limits --example > metrics.csv         a case to try it on
      mrtuner limits local --watch 10m               a server on this host, a point a second
      mrtuner limits postgresql://postgres@db/app    its ceilings, as far as seen from here

    A ceiling holds for reads plus writes, so both are needed. A CSV has a column timestamp
    (ISO 8601) and columns under CloudWatch's own names: ReadThroughput, WriteThroughput, ReadIOPS,
    WriteIOPS, and as far as there are any DiskQueueDepth, ReadLatency, WriteLatency,
    CPUUtilization, EBSByteBalance%, NetworkReceiveThroughput, NetworkTransmitThroughput.

    A watch on the server's own host reads its block device, control groups, network, CPU and
    memory; from elsewhere only what SQL shows. Ctrl-C ends it, and what was seen until then is
    told. Nothing is changed.
    """
    if example:
        _example(as_json)
        return
    if (instance is None) == (metrics is None):
        raise UsageError(
            "say an instance, or metrics in a file",
            "Run mrtuner limits INSTANCE, or mrtuner limits --metrics FILE --class CLASS.",
        )
    if instance is not None and _is_server(instance):
        _watch(ctx, instance, watch, output, check, as_json)
        return
    if watch is not None:
        raise UsageError(
            "--watch is for a server that is not on RDS",
            "Run mrtuner limits local --watch 10m; of RDS, --since says how far back to look.",
        )
    from mrtuner.limits import limits

    if metrics is None:
        found = _of_instance(str(instance), since, what_if, max_connections, region, profile)
    elif class_name is None:
        raise UsageError("the class is not said", "Add --class, such as --class db.r5.2xlarge.")
    else:
        found = limits(
            _read(metrics, timezone, throughput_unit),
            class_name=class_name,
            storage=storage,
            what_if=what_if,
            connections=_connections(class_name, max_connections),
        )
    _tell(found, output, as_json)
    if check and found.pegged:
        ctx.exit(FOUND)


def _is_server(name: str) -> bool:
    """``local``, a URI, or key=value words; no instance has such a name."""
    return name == "local" or "://" in name or "=" in name


def _watch(
    ctx: click.Context, name: str, seconds: float | None, output: Path | None, check: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """A server that is not on RDS; what was seen until an interruption is told too."""
    from mrtuner.limits.watch import watch

    dsn = "" if name == "local" else name
    options.careful(dsn)
    with terminal.gentle_end():
        found = watch(dsn, seconds or 0, tell=_countdown())
    _tell(found.limits, output, as_json)
    if found.interrupted:
        ctx.exit(INTERRUPTED)
    if check and found.limits.pegged:
        ctx.exit(FOUND)


def _countdown() -> Any:
    """A line that counts down, on a terminal."""
    if not terminal.animated(sys.stderr):
        return None

    def tell(seconds: float) -> None:
        click.echo(f"\r  watching: {seconds:,.0f} s remain ", nl=seconds <= 0, err=True)

    return tell


def _read(path: Path, timezone: str | None, unit: str | None) -> Series:
    """The file; where its unit cannot be right, whoever is there is asked."""
    from mrtuner.limits.read import WrongUnit, read

    try:
        return read(path, timezone=timezone, throughput_unit=unit)
    except WrongUnit as error:
        if not terminal.someone_there():
            raise
        terminal.talk(error.message)
        terminal.agree(f"Read it as {error.unit}?", yes=False)
        return read(path, timezone=timezone, throughput_unit=error.unit)


def _of_instance(
    name: str,
    since: str,
    what_if: tuple[str, ...],
    max_connections: int | None,
    region: str | None,
    profile: str | None,
) -> Limits:
    from datetime import UTC, datetime

    from mrtuner.aws.session import Account
    from mrtuner.limits import limits
    from mrtuner.limits.fetch import fetch

    account = Account(region=region, profile=profile)
    now = datetime.now(UTC)
    fetched = fetch(name, now - _ago(since), now, account, tell=_progress())
    return limits(
        fetched.series,
        name=name,
        class_name=fetched.class_name,
        storage=fetched.volume,
        what_if=what_if,
        connections=_connections(fetched.class_name, max_connections),
    )


def _ago(text: str) -> Any:
    from datetime import timedelta

    units = {"h": "hours", "d": "days", "w": "weeks"}
    number, unit = text[:-1], text[-1:]
    if not number.isdigit() or unit not in units or int(number) == 0:
        raise BadValue(f"{text!r} is no time such as 6h or 14d", "CloudWatch keeps 455 days.")
    return timedelta(**{units[unit]: int(number)})


def _connections(class_name: str, given: int | None) -> tuple[int, str] | None:
    """What max_connections is by RDS's own formula, where nobody says."""
    if given is not None:
        return given, "as given"
    from mrtuner.catalog.classes import instance_class
    from mrtuner.rds.memory import class_memory

    most = min(class_memory(instance_class(class_name)).value // 9_531_392, 5000)
    return most, "RDS's default LEAST({DBInstanceClassMemory/9531392},5000), estimated"


def _progress() -> Any:
    """A line on a terminal for every page of CloudWatch."""
    if not terminal.animated(sys.stderr):
        return None

    def tell(points: int, of: int) -> None:
        click.echo(f"\r  CloudWatch: {points:,} of about {of:,} points", nl=points >= of, err=True)

    return tell


def _tell(found: Limits, output: Path | None, as_json: bool) -> None:
    from mrtuner.report.limits import lines, page

    if output is not None:
        terminal.save(output, page(found))
        terminal.talk(f"written: {output}")
    told = found.to_dict()
    if as_json:
        terminal.document(told)
    else:
        for line in lines(told):
            click.echo(line)


def _example(as_json: bool) -> None:
    from mrtuner.limits.story import CLASS, STORAGE, as_csv, story

    if as_json:
        raise UsageError("--example prints CSV, not JSON", "Leave --json away.")
    click.echo(as_csv(story()), nl=False)
    terminal.talk(f"class {CLASS}, storage {STORAGE}")
