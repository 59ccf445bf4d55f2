"""Options that several commands share, and the kinds of values they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from mrtuner.cli.group import Command
from mrtuner.cli.terminal import print_note
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.units import Bytes

Function = TypeVar("Function", bound=Callable[..., Any])

STORAGES: Final = ("hdd", "ssd", "nvme", "ebs", "network", "overlay")
WORKLOADS: Final = ("web", "oltp", "olap", "mixed", "desktop")
#: Sessions of applications: max_connections may be 262,143 with what is reserved.
CONNECTIONS: Final = click.IntRange(1, 260_000)


class Share(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """A part of one: ``0.9``, ``90%``."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The share as a number; a value without a % sign is taken as it stands."""
        text = str(value).strip()
        try:
            return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            self.fail(f"{text!r} is not a share such as 3% or 0.03", param, ctx)


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """Seconds: ``30s``, ``5min``, ``15m``, ``1h``; a bare number is seconds; below a week."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The duration in seconds, above zero."""
        from mrtuner.errors import BadValue
        from mrtuner.units import parse_duration

        try:
            seconds = parse_duration(value)
        except BadValue:
            seconds = 0.0
        if not 0 < seconds < 86_400 * 7:
            self.fail(f"{str(value)!r} is not a duration such as 30s or 5min", param, ctx)
        return seconds


def machine_options(function: Function) -> Function:
    """What `mrtuner.tune` can be told of a machine; the names are its arguments."""
    for option in reversed(_MACHINE):
        function = option(function)
    return function


_MACHINE: Final = (
    click.option(
        "--workload",
        metavar="KIND",
        help=f"What the server is for: one of {', '.join(WORKLOADS)}.  [default: mixed]",
    ),
    click.option("--memory", metavar="SIZE", help="Memory PostgreSQL may use, such as 16GB."),
    click.option("--cpus", type=int, metavar="N", help="Number of CPUs PostgreSQL may use."),
    click.option(
        "--storage", metavar="KIND", help=f"Kind of storage: one of {', '.join(STORAGES)}."
    ),
    click.option("--disk", metavar="SIZE", help="Size of the volume of the data directory."),
    click.option("--wal-disk", metavar="SIZE", help="Size of a separate volume for pg_wal."),
    click.option("--iops", type=int, metavar="N", help="I/O operations per second of the volume."),
    click.option(
        "--throughput",
        metavar="SIZE",
        help="Throughput of the volume in bytes per second, such as 125MB.",
    ),
    click.option("--data", metavar="SIZE", help="Size of all databases together."),
    click.option(
        "--connections",
        type=int,
        metavar="N",
        help="Number of application sessions, without those the server reserves.",
    ),
    click.option(
        "--active",
        type=int,
        metavar="N",
        help="Number of sessions that run a statement at the same time.  [default: all may]",
    ),
    click.option(
        "--huge-pages",
        is_flag=True,
        default=None,
        help="Huge pages are, or will be, reserved for shared memory.",
    ),
    click.option(
        "--rto",
        type=Duration(),
        metavar="TIME",
        help="Longest crash recovery allowed, such as 60s; it bounds max_wal_size.",
    ),
    click.option("--pg", "postgres", type=int, metavar="MAJOR", help="PostgreSQL version, 13-19."),
    click.option(
        "--ceiling",
        type=Share(),
        metavar="SHARE",
        help="Largest share of memory that the worst case may use.  [default: 90%]",
    ),
)

_GROUP: Final = (
    click.option("--class", "class_name", required=True, metavar="CLASS",
                 help="Instance class, such as db.r6g.xlarge."),
    click.option(
        "--family", "family_name", required=True, metavar="FAMILY",
        help="Parameter group family, such as postgres17 or aurora-postgresql16.",
    ),
    click.option(
        "--workload", type=click.Choice(WORKLOADS), metavar="KIND",
        help=f"What the server is for: one of {', '.join(WORKLOADS)}.  [default: mixed]",
    ),
    click.option("--connections", type=CONNECTIONS, metavar="N",
                 help="Number of application sessions, without those the server reserves."),
    click.option(
        "--disk", "storage", metavar="SIZE", help="Size of the volume.  [default: 100GB]"
    ),
    click.option("--smallest", metavar="CLASS",
                 help="Smallest class that the group has to fit.  [default: every class]"),
)  # fmt: skip


def group_options(function: Function) -> Function:
    """What a parameter group is designed for; the names are those of `rds.group.design`."""
    for option in reversed(_GROUP):
        function = option(function)
    return function


def size(text: str | None) -> Bytes | None:
    """A size as a person writes it, in bytes."""
    from mrtuner.units import parse_bytes

    return None if text is None else parse_bytes(text)


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON document to stdout."
)
#: Statements that --plans explains where no number is given.
PLANS: Final = 20
plans_option = click.option(
    "--plans", type=click.IntRange(1, 1000), is_flag=False, flag_value=PLANS, metavar="[N]",
    help="Explain the N (20) most expensive statements, now and as advised; they are never run.",
)  # fmt: skip
output_option = click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write to this file instead of stdout.",
)  # fmt: skip


def format_option(formats: Sequence[str], more: str = "") -> Callable[[Function], Function]:
    """--format, for which --json is the short form of one value."""
    return click.option(
        "--format", "form", type=click.Choice(formats), metavar="FORMAT",
        help=f"Output format: one of {', '.join(formats)}.{more}",
    )  # fmt: skip


def one_format(form: str | None, as_json: bool, default: str = "text") -> str:
    """The format that --format and --json say together."""
    if as_json and form not in {None, "json"}:
        raise UsageError(f"--json and --format {form} cannot be used together", "Omit one of them.")
    return "json" if as_json else form or default


def html_option(help_text: str) -> Callable[[Function], Function]:
    """--html FILE, the same of every command that writes a page."""
    return click.option(
        "--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help=help_text
    )


def check_option(what: str) -> Callable[[Function], Function]:
    """--check, without which no command ends with 3."""
    return click.option("--check", is_flag=True, help=f"Exit with status 3 if {what}.")


yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
server_bin_option = click.option(
    "--server-bin",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Use this PostgreSQL installation for the embedded server.",
)
journal_option = click.option(
    "--journal",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep the journal of changes here.  [default: the user's state directory]",
)


every_option = click.option(
    "--every", type=Duration(), default="0.2s", show_default=True, metavar="TIME",
    help="Time between two probes of one kind.",
)  # fmt: skip
steady_option = click.option(
    "--steady", type=Duration(), default="5s", show_default=True, metavar="TIME",
    help="How long all probes must succeed before it begins and before it counts as over.",
)  # fmt: skip


def command(name: str) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command; its docstring is the help, examples first."""
    return click.command(name, cls=Command)


def warn_of_password(dsn: str | None) -> str | None:
    """The connection string as given, after a warning when it shows a password to everybody."""
    if dsn is not None:
        from mrtuner.postgres.connect import masked

        if masked(dsn) != dsn:
            print_note(
                "warning: the password on the command line can be read by every user of this "
                "machine: use PGPASSWORD or ~/.pgpass"
            )
    return dsn
