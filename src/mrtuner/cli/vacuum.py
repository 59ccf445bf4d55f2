"""`mrtuner vacuum`: what autovacuum needs, table by table, and whether it keeps up."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli import options, terminal
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.vacuum import Vacuum

FOUND: Final = 3


class _Watch(options.Duration):
    """The same durations, and ``15m`` for minutes as people write it."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The duration in seconds, above zero."""
        text = str(value).strip()
        minutes = text.endswith("m") and text[:-1].strip().replace(".", "", 1).isdigit()
        return super().convert(f"{text}in" if minutes else value, param, ctx)


@options.command("vacuum")
@click.argument("dsn")
@click.option(
    "--watch",
    type=_Watch(),
    metavar="TIME",
    help="Measure rates for so long, such as 15m.  [default: since the last reset]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(("text", "json", "sql")),
    default="text",
    show_default=True,
    help="How to tell it.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    metavar="N",
    help="Tables told in full.",
)
@click.option("--check", is_flag=True, help="Exit with 3 when there is something to do.")
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    dsn: str,
    watch: float | None,
    form: str,
    top: int,
    check: bool,
    as_json: bool,
) -> None:
    """Settings for autovacuum, table by table, from measured rates; what stands in its way.

    \b
    Examples:
      mrtuner vacuum postgresql://postgres@db/app --watch 15m
      mrtuner vacuum postgresql://postgres@db/app              averages since the last reset
      mrtuner vacuum postgresql://postgres@db/app --watch 15m --format sql > vacuum.sql
      mrtuner vacuum postgresql://postgres@db/app --check --json

    One database at a time. It reads only, takes no lock on a table, and changes nothing: run
    what --format sql writes when you have read it. Values written again unchanged (TOAST) are
    suspected from statistics, not proven.
    """
    from mrtuner.vacuum import vacuum

    if as_json and form == "sql":
        raise UsageError("--json and --format sql exclude each other", "Leave one of them away.")
    options.careful(dsn)
    with terminal.gentle_end():
        found = vacuum(dsn, watch=watch, tell=_progress())
    _tell(found, "json" if as_json else form, top)
    if check and found.to_do:
        ctx.exit(FOUND)


def _progress() -> Any:
    """A line that counts down, on a terminal."""
    if not terminal.animated(sys.stderr):
        return None

    def tell(seconds: float) -> None:
        click.echo(f"\r  watching: {seconds:,.0f} s remain ", nl=False, err=True)
        if seconds <= 0:
            terminal.talk()

    return tell


def _tell(found: Vacuum, form: str, top: int) -> None:
    if form == "sql":
        click.echo(found.as_sql(), nl=False)
        return
    told = found.to_dict()
    if form == "json":
        terminal.document(told)
        return
    from mrtuner.vacuum.text import lines

    for line in lines(told, top):
        click.echo(line)
