"""`mrtuner vacuum`: what autovacuum needs, table by table, and whether it keeps up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrtuner.cli import exit_codes, needs, options, storage_parameters, terminal, watch_progress
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.vacuum import Vacuum


@options.command("vacuum")
@click.argument("dsn")
@click.option(
    "--watch",
    type=options.Duration(),
    metavar="TIME",
    help="Measure rates for this long, such as 15m.  [default: since the last reset]",
)
@click.option(
    "--sample",
    multiple=True,
    metavar="TABLE",
    help="Table whose rows are compared before and after, to find values rewritten unchanged.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(("text", "json", "sql", "conf")),
    default="text",
    show_default=True,
    help="Output format; conf holds only the settings of the server.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    metavar="N",
    help="Number of tables shown in full.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write an HTML page with a picture of dead rows now and with the advice.",
)
@click.option("--check", is_flag=True, help="Exit with status 3 if there is something to do.")
@click.option(
    "--apply", "applies", is_flag=True, help="Set the advised storage parameters of tables."
)
@click.option("--undo", "undoes", is_flag=True, help="Undo the last --apply, without measuring.")
@options.journal_option
@options.yes_option
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    dsn: str,
    watch: float | None,
    sample: tuple[str, ...],
    form: str,
    top: int,
    report: Path | None,
    check: bool,
    applies: bool,
    undoes: bool,
    journal: Path | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Settings for autovacuum, table by table, from measured rates; what stands in its way.

    \b
    Examples:
      mrtuner vacuum postgresql://postgres@db/app --watch 15m
      mrtuner vacuum postgresql://postgres@db/app              averages since the last reset
      mrtuner vacuum postgresql://postgres@db/app --watch 15m --report vacuum.html
      mrtuner vacuum postgresql://postgres@db/app --watch 15m --format sql > vacuum.sql
      mrtuner vacuum postgresql://postgres@db/app --watch 15m --apply
      mrtuner vacuum postgresql://postgres@db/app --undo
      mrtuner vacuum postgresql://postgres@db/app --watch 15m --sample public.document
      mrtuner vacuum postgresql://postgres@db/app --check --json

    One database at a time. Without --apply it reads only, and takes no lock on a table but those
    in --sample. Ctrl-C ends a watch early and tells what was seen until then. --apply sets all
    tables or none, the plan first; settings of the server are for mrtuner apply --from, with
    --format conf. Values written again unchanged (TOAST) are suspected from statistics, proven by
    --sample.
    """
    if as_json and form != "text":
        raise UsageError(f"--json and --format {form} exclude each other", "Leave one away.")
    if (applies or undoes) and (check or report or form != "text" or applies == undoes):
        raise UsageError(
            "--apply and --undo stand alone, with --json at most", "Leave the other away."
        )
    options.warn_of_password(dsn)
    with terminal.sigterm_as_interrupt():
        if undoes:
            storage_parameters.take_back(dsn, journal, yes=yes, as_json=as_json)
            return
        _consent(sample, yes)
        if applies:
            storage_parameters.put(dsn, watch, sample, journal, yes=yes, as_json=as_json)
            return
        needs.first(page=report)
        found, interrupted = watch_progress.watched(dsn, watch, sample)
    _tell(found, "json" if as_json else form, top)
    _save(found, report)
    if interrupted:
        ctx.exit(exit_codes.INTERRUPTED)
    if check and found.to_do:
        ctx.exit(exit_codes.FOUND)


def _consent(tables: tuple[str, ...], yes: bool) -> None:
    """Ask before rows are read: values may be many, and somebody's."""
    if tables:
        from mrtuner.vacuum.sample import ROWS

        terminal.print_note(
            f"of {', '.join(tables)} up to {ROWS:,} rows each are read twice; their values are "
            "compared in the server and do not leave it"
        )
        terminal.confirm("Read them?", yes=yes)


def _save(found: Vacuum, report: Path | None) -> None:
    if report is not None:
        from mrtuner.present.vacuum import page

        terminal.save(report, page(found.to_dict()))
        terminal.print_note(f"written: {report}")


def _tell(found: Vacuum, form: str, top: int) -> None:
    if form in {"sql", "conf"}:
        click.echo(found.as_sql() if form == "sql" else found.as_conf(), nl=False)
        return
    told = found.to_dict()
    if form == "json":
        terminal.document(told)
        return
    from mrtuner.vacuum.text import lines

    for line in lines(told, top):
        terminal.print_line(line)
