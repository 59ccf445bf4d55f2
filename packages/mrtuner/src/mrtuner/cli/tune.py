"""`mrtuner tune`: advice for a described machine, this machine, or a running server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli.common import check_option, options, targets, terminal
from mrtuner.errors import UsageError
from mrtuner.formats import NAMES, for_containers
from mrtuner.wording import not_judged

if TYPE_CHECKING:
    from mrtuner.facts import Missing
    from mrtuner.tuning import Tuning
    from mrtuner.tuning.query_plans import Plans

FORMATS: Final = ("text", "json", *NAMES)


@options.command("tune")
@click.argument("dsn", type=targets.ServerArgument(), required=False)
@options.machine_options
@options.format_option(FORMATS, "  [default: text]")
@options.json_option
@click.option("--all", "everything", is_flag=True, help="Also list settings that need no change.")
@options.time_option(
    "--watch", "Sample a running server's counters for this long, under load, such as 30s."
)
@options.history_options(
    "Use the peaks recorded there by mrtuner record, not averages since the last reset."
)
@options.plans_option
@click.option(
    "--compare", "peer", type=click.Choice(["pgtune"]),
    help="Also list where another tool's value differs, with its rule and our reason.",
)  # fmt: skip
@check_option.checks("there is something to change, or a danger")
@options.output_option
def command(
    dsn: str | None,
    form: str | None,
    as_json: bool,
    everything: bool,
    watch: float | None,
    history: Path | None,
    instance: str | None,
    plans: int | None,
    peer: str | None,
    check: check_option.Check,
    output: Path | None,
    **machine: Any,
) -> None:
    """Advise settings that the server accepts and that fit in memory, each with its reason.

    \b
    Examples:
      mrtuner tune                                   this machine
      mrtuner tune --memory 16GB --cpus 4 --storage ssd --workload oltp --pg 18
      mrtuner tune postgresql://postgres@db/app      a running server
      mrtuner tune postgresql://postgres@db/app --watch 60s
      mrtuner tune postgresql://postgres@db/app --history /var/lib/mrtuner
      mrtuner tune postgresql://postgres@db/app --plans
      mrtuner tune --memory 16GB --cpus 4 --compare pgtune
      mrtuner tune --memory 16GB --cpus 4 --format conf -o mrtuner.conf
      mrtuner tune postgresql://postgres@db/app --check

    DSN is a connection string; PGHOST, PGPASSWORD, service files and ~/.pgpass are used as in
    psql. Without DSN, --memory and --cpus, the advice is for this machine.
    """
    from mrtuner.answers import tune

    form = options.one_format(form, as_json)
    if plans is not None:
        _refuse_plans(dsn, form)
    if peer is not None and form not in {"text", "json"}:
        raise UsageError(f"--format {form} cannot show a comparison", "Use text or --json.")
    options.warn_of_password(dsn)
    tuning = tune(
        dsn, watch=watch, history=history, instance=instance, tell=terminal.print_note, **machine
    )
    unjudged = _unjudged(tuning)
    for one in unjudged if check.wanted else ():
        terminal.print_note(not_judged(one.name, one.why, one.supply))
    found = _plans(dsn, plans, tuning)
    text = _written(tuning, form, everything, output, found, compared=peer is not None)
    terminal.deliver(text, output)
    check.conclude(found=bool(tuning.changes or tuning.dangers), unjudged=unjudged)


def _unjudged(tuning: Tuning) -> list[Missing]:
    """Settings without a verdict, and what was not checked of the next start.

    A missing fact that no verdict needs does not matter, nor a setting that only shows more.
    """
    from mrtuner.facts import Missing
    from mrtuner.tuning import NEXT_START
    from mrtuner.tuning.verdict import Unknown

    unknown = [
        Missing(one.name, one.verdict.because)
        for one in tuning.values()
        if isinstance(one.verdict, Unknown) and one.rule.area != "monitoring"
    ]
    return [*unknown, *(one for one in tuning.missing if one.name == NEXT_START)]


def _refuse_plans(dsn: str | None, form: str) -> None:
    if dsn is None:
        raise UsageError("--plans needs a running server", "Give its connection string.")
    if form not in {"text", "json"}:
        raise UsageError(f"--format {form} cannot show plans", "Use text or --json.")


def _plans(dsn: str | None, number: int | None, tuning: Tuning) -> Plans | None:
    if dsn is None or number is None:
        return None
    from mrtuner.tuning.query_plans import compare

    advised = {item.name: item.value for item in tuning.changes}
    return compare(dsn, number, advised, trusted=True)  # by who typed the command


def _written(
    tuning: Tuning, form: str, everything: bool, output: Path | None, found: Plans | None, *,
    compared: bool,
) -> str:  # fmt: skip
    if form == "json":
        from mrtuner.tuning.document import tune_document

        return terminal.as_json(tune_document(tuning, found, compared=compared))
    if form != "text":
        _tell_assumed(tuning, form)
        return tuning.as_(form)
    from mrtuner.present.text import Look
    from mrtuner.tuning.report.text import screen, where_pgtune_differs

    look = terminal.look(sys.stdout) if output is None else Look(width=terminal.WIDTH)
    lines = list(screen(tuning, look, everything=everything))
    if found:
        from mrtuner.tuning.report.plans import plans

        lines += plans(found, look)
    if compared:
        lines += where_pgtune_differs(tuning, look)
    return "".join(f"{terminal.line(line)}\n" for line in lines)


def _tell_assumed(tuning: Tuning, form: str) -> None:
    """Warn of an assumed volume: a full one stops the server, and we cannot see a container's."""
    if for_containers(form) and tuning.assumed:
        terminal.print_note(f"warning: {tuning.assumed[0].lower()}{tuning.assumed[1:]}")
