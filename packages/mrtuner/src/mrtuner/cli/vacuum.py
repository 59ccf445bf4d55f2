"""`mrtuner vacuum`: what autovacuum needs, table by table, and whether it keeps up."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mrtuner.cli.common import (
    change,
    check_option,
    exit_codes,
    options,
    prerequisites,
    progress,
    targets,
    terminal,
)
from mrtuner.cli.common.catalog_change import CatalogChange
from mrtuner.cli.common.commands import offer_verbs

if TYPE_CHECKING:
    from mrtuner.change.catalog_transaction import Wanted
    from mrtuner.vacuum import Vacuum
    from mrtuner.vacuum.document import VacuumDocument

FORMATS: Final = ("text", "json", "sql", "conf")
_TICK: Final = 0.5  # [s]

_dsn = click.argument("dsn", type=targets.ServerArgument(), shell_complete=offer_verbs)
_watch = options.time_option(
    "--watch", "Measure rates for this long, such as 15m.  [default: since the last reset]"
)
_history = options.history_options(
    "Use the rates of each table's busiest day, as recorded there by mrtuner record."
)
_sample = click.option(
    "--sample", multiple=True, metavar="TABLE",
    help="Table whose rows are compared before and after, to find values rewritten unchanged.",
)  # fmt: skip


@options.command("vacuum")
@_dsn
@_watch
@_history
@_sample
@options.format_option(
    FORMATS, " The format conf holds only the server's settings.  [default: text]"
)
@options.json_option
@options.output_option
@click.option(
    "--top", type=click.IntRange(1), default=20, show_default=True, metavar="N",
    help="Number of tables shown in full.",
)  # fmt: skip
@options.time_option(
    "--long", "Report sessions and prepared transactions that are older.  [default: 5min]"
)
@options.html_option("Write an HTML page with a chart of dead rows now and with the advice.")
@check_option.checks("there is something to do")
@options.yes_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    dsn: str,
    watch: float | None,
    history: Path | None,
    instance: str | None,
    sample: tuple[str, ...],
    form: str | None,
    as_json: bool,
    output: Path | None,
    top: int,
    long: float | None,
    html: Path | None,
    check: check_option.Check,
    yes: bool,
) -> None:
    """Advise autovacuum settings for each table, and find what blocks vacuum.

    \b
    Examples:
      mrtuner vacuum postgresql://postgres@db/app --watch 15m
      mrtuner vacuum postgresql://postgres@db/app              averages since the last reset
      mrtuner vacuum postgresql://postgres@db/app --history /var/lib/mrtuner
      mrtuner vacuum postgresql://postgres@db/app --watch 15m --html vacuum.html
      mrtuner vacuum postgresql://postgres@db/app --watch 15m --format sql -o vacuum.sql
      mrtuner vacuum apply postgresql://postgres@db/app --watch 15m
      mrtuner vacuum undo postgresql://postgres@db/app
      mrtuner vacuum postgresql://postgres@db/app --watch 15m --sample public.document
      mrtuner vacuum postgresql://postgres@db/app --check --json

    One database at a time. Read-only; locks no tables except those in --sample. Ctrl-C ends
    a watch early (exit code 130), and so does a restart of the server (6). What was measured
    by then is reported. To apply server settings, use --format conf and mrtuner apply --from.
    Statistics hint at values written again unchanged (TOAST); --sample proves it.
    """
    form = options.one_format(form, as_json)
    options.warn_of_password(dsn)
    prerequisites.require(page=html)
    with terminal.sigterm_as_interrupt():
        _consent(sample, yes)
        found, cut_short = _watched(
            dsn, watch, sample, long=long, history=history, instance=instance
        )
    from mrtuner.vacuum.document import vacuum_document

    told = vacuum_document(found)
    terminal.deliver(_written(found, told, form, top), output)
    if html is not None:
        from mrtuner.vacuum.page import page

        terminal.save_and_tell(html, page(told))
    if cut_short:
        ctx.exit(cut_short)
    check.conclude(found=found.to_do, unjudged=found.unjudged)


@command.verb("apply")
@click.argument("dsn", type=targets.ServerArgument())
@_watch
@_history
@_sample
@options.change_options
def apply(
    dsn: str,
    watch: float | None,
    history: Path | None,
    instance: str | None,
    sample: tuple[str, ...],
    asked: options.Asked,
) -> None:
    """Set the advised storage parameters of tables: all tables, or none.

    \b
    Examples:
      mrtuner vacuum apply postgresql://postgres@db/app --watch 15m
      mrtuner vacuum apply postgresql://postgres@db/app --yes --json

    It measures, shows the plan and asks. Needs the tables' owner or a superuser.
    To change server settings, use mrtuner apply --from.
    """
    options.warn_of_password(dsn)
    with terminal.sigterm_as_interrupt():
        _consent(sample, asked.yes)
        _tables().put(dsn, partial(_planned, dsn, watch, sample, history, instance), asked)


@command.verb("undo")
@click.argument("dsn", type=targets.ServerArgument())
@options.change_options
def undo(dsn: str, asked: options.Asked) -> None:
    """Undo the last mrtuner vacuum apply, without measuring.

    \b
    Examples:
      mrtuner vacuum undo postgresql://postgres@db/app
      mrtuner vacuum undo postgresql://postgres@db/app --yes --json

    A parameter that was unset becomes unset again; one that was changed since is left unchanged
    and reported.
    """
    options.warn_of_password(dsn)
    with terminal.sigterm_as_interrupt():
        _tables().take_back(dsn, asked)


def _tables() -> CatalogChange:
    from mrtuner.vacuum.apply import StorageParameters
    from mrtuner.vacuum.document import change_document

    return CatalogChange(
        kind=StorageParameters,
        nouns=("parameter", "table"),
        undo=("mrtuner", "vacuum", "undo", "DSN"),
        applied=change_document,
        undone=change_document,
    )


def _planned(
    dsn: str,
    watch: float | None,
    sample: tuple[str, ...],
    history: Path | None,
    instance: str | None,
) -> Wanted:
    """Measure; return what tables are to be set to, and why. Name the server's settings."""
    from mrtuner.escape import damaged
    from mrtuner.vacuum.apply import wanted
    from mrtuner.vacuum.commands import qualified
    from mrtuner.wording import plural

    found, cut_short = _watched(dsn, watch, sample, history=history, instance=instance)
    if cut_short:
        terminal.print_note("the watch was incomplete, so nothing was set")
        raise click.exceptions.Exit(cut_short)
    if found.settings:
        names = ", ".join(f"{one.name} = {one.value}" for one in found.settings)
        where = shlex.quote(change.dsn_without_secrets(dsn))
        terminal.print_note(
            f"server settings, not set here: {names}; write them with --format conf > "
            f"server.conf, then run: mrtuner apply {where} --from server.conf"
        )
    left_out = [one for one in found.tables if one.advice and damaged(qualified(one.table))]
    if left_out:
        terminal.print_note(
            f"{plural(len(left_out), 'table')} left out, whose name is no text here: see "
            "--format sql"
        )
    return wanted(found)


def _watched(
    dsn: str, watch: float | None, sample: tuple[str, ...], *, long: float | None = None,
    history: Path | None = None, instance: str | None = None,
) -> tuple[Vacuum, int]:  # fmt: skip
    """Return what `vacuum` finds, and the exit code: Ctrl-C or the server may end a watch early."""
    from mrtuner.answers import vacuum
    from mrtuner.vacuum import Enough

    code = exit_codes.DONE

    def pause(seconds: float) -> None:
        nonlocal code
        try:
            sleep(seconds)
        except KeyboardInterrupt as end:
            if end.args:  # a signal other than Ctrl-C: it asks us to exit
                raise
            code = exit_codes.INTERRUPTED
            terminal.print_note("interrupted: the results below are from before that")
            raise Enough from None

    with _shown(watch) as sleep:
        found = vacuum(
            dsn, watch=watch, sample=sample, sleep=pause, long=long,
            history=history, instance=instance,
        )  # fmt: skip
    if found.picture.lost is not None:
        terminal.print_note("the server ended the session: the results below are from before that")
        code = code or exit_codes.UNFINISHED
    return found, code


@contextmanager
def _shown(watch: float | None) -> Iterator[Callable[[float], None]]:
    """Yield a sleep function that shows how far the watch is."""
    if watch is None:
        yield time.sleep
        return
    with progress.bar() as shown:
        began = time.monotonic()

        def sleep(seconds: float) -> None:
            shown.line(f"watching for {watch:,.0f} s; Ctrl-C ends it early")
            end = time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0:
                shown.move(time.monotonic() - began, watch, "Ctrl-C ends it early")
                time.sleep(min(_TICK, left))

        yield sleep


def _consent(tables: tuple[str, ...], yes: bool) -> None:
    """Ask before rows are read: there may be many, with personal data."""
    if tables:
        from mrtuner.vacuum.sample import ROWS

        terminal.print_note(
            f"up to {ROWS:,} rows each of {', '.join(tables)} are read twice; their values are "
            "compared in the server and do not leave it"
        )
        terminal.confirm("Read them?", yes=yes)


def _written(found: Vacuum, told: VacuumDocument, form: str, top: int) -> str:
    if form in {"sql", "conf"}:
        return found.as_sql() if form == "sql" else found.as_conf()
    if form == "json":
        return terminal.as_json(told)
    from mrtuner.vacuum.text import lines

    return "".join(f"{terminal.line(line)}\n" for line in lines(told, top))
