"""`mrtuner cpu`: do equal workers take equal time on these vCPUs?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli.common import options, prerequisites, targets, terminal
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.cpu import CpuPlan, Setup
    from mrtuner.cpu.document import CpuDocument

MODES: Final = ("integer", "gzip", "sql")


@options.command("cpu")
@click.argument("dsn", type=targets.ServerArgument(), required=False)
@click.option(
    "--mode", type=click.Choice(MODES),
    help="Kind of work.  [default: integer; sql with DSN]",
)  # fmt: skip
@click.option(
    "--cpus",
    type=click.IntRange(1),
    metavar="N",
    help="Number of vCPUs of a server on another machine.",
)
@click.option(
    "--up-to", metavar="2x",
    help="Largest number of workers, or a multiple of the CPUs.  [default: 2x; with DSN 1x]",
)  # fmt: skip
@click.option(
    "--seconds", type=click.FloatRange(0.1, 600), default=2.0, show_default=True,
    help="Time that one worker takes when it runs alone.",
)  # fmt: skip
@click.option(
    "--repeats", type=click.IntRange(2, 100), default=5, show_default=True,
    help="Number of trials with each number of workers.",
)  # fmt: skip
@click.option("--no-pairs", is_flag=True, help="Do not look for CPUs that share a core.")
@click.option("--seed", type=int, help="Seed of the random order, to repeat an earlier test.")
@click.option(
    "--force", is_flag=True, help="Measure even on a busy machine; the record will mention it."
)
@options.html_option("Write the test as one HTML page.")
@options.yes_option
@options.json_option
def command(
    dsn: str | None, mode: str | None, cpus: int | None, html: Path | None, yes: bool,
    as_json: bool, **rest: Any,
) -> None:  # fmt: skip
    """Find out whether equal work takes equal time on these vCPUs, and what makes it unequal.

    \b
    Examples:
      mrtuner cpu
      mrtuner cpu --mode gzip --html cpu.html
      mrtuner cpu --up-to 12 --json > cpu.json
      mrtuner cpu postgresql://postgres@db/postgres --cpus 8

    The test runs one worker, then more, up to twice as many as CPUs. Where an extra worker adds
    less work than the one before, the cause is inferred from what grew: sibling threads,
    saturation, a quota, steal, the clock, other work. Every CPU is fully busy meanwhile, so run it
    on an idle machine. With DSN the workers are sessions of that server: nothing is written to it,
    but its CPUs are fully busy too.
    """
    _check(mode, dsn, cpus)
    options.warn_of_password(dsn)
    prerequisites.require(page=html)
    with terminal.sigterm_as_interrupt():
        told = _measured(mode or ("integer" if dsn is None else "sql"), dsn, cpus, yes, rest)
    from mrtuner.cpu.report import lines, page

    terminal.answer_and_page(told, lines, page, as_json, html)


def _check(mode: str | None, dsn: str | None, cpus: int | None) -> None:
    if dsn is not None and mode not in (None, "sql"):
        raise UsageError(
            f"--mode {mode} is not for a server", "Leave out --mode or the connection string."
        )
    if dsn is None and mode == "sql":
        raise UsageError("--mode sql needs a server", "Give a connection string.")
    if dsn is None and cpus is not None:
        raise UsageError(
            "--cpus is for a server on another machine",
            "Limit the local workers with --up-to or taskset.",
        )


def _measured(
    mode: str, dsn: str | None, cpus: int | None, yes: bool, given: dict[str, Any]
) -> CpuDocument:
    from mrtuner.cpu import Mode, here, measure, server
    from mrtuner.cpu.document import cpu_document

    setup = here(Mode(mode)) if dsn is None else server(dsn, cpus)
    plan = _plan(setup, given)
    _announce(setup, plan)
    if dsn is not None:
        terminal.confirm("Keep this server's CPUs busy for that long?", yes=yes)
    record = measure(setup, plan, tell=lambda text: terminal.print_note(f"  {text}"))
    return cpu_document(record)


def _plan(setup: Setup, given: dict[str, Any]) -> CpuPlan:
    from random import SystemRandom

    from mrtuner.cpu import planned

    seed = given["seed"]
    return planned(
        setup,
        up_to=given["up_to"],
        repeats=given["repeats"],
        seconds=given["seconds"],
        seed=SystemRandom().randrange(1 << 31) if seed is None else seed,
        try_pairs=not given["no_pairs"],
        forced=given["force"],
    )


def _announce(setup: Setup, plan: CpuPlan) -> None:
    from mrtuner.cpu import seconds_expected

    expected = seconds_expected(plan, setup.usable)
    length = f"{expected:.0f} s" if expected < 120 else f"{expected / 60:.0f} min"
    terminal.print_note(f"usable CPUs: {setup.usable.words}")
    terminal.print_note(
        f"{plan.mode} work, 1 to {plan.counts[-1]} workers, {plan.repeats} times each: "
        f"about {length}"
    )
