"""`mrtuner bench run`: run a plan into a directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrtuner.cli.bench import running
from mrtuner.cli.common import options
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.bench.plan.model import Plan


@options.command("run")
@click.argument("plan", type=click.Path(path_type=Path, dir_okay=False), required=False)
@running.output_option
@options.path_option("--resume", "DIR", "Continue the unfinished run in this directory.")
@click.option("--forecast", is_flag=True, help="Only show how long it would take.")
@click.option(
    "--scale", type=int, multiple=True, help="Scale factor instead of the plan's; may be repeated."
)
@click.option(
    "--clients",
    type=int,
    multiple=True,
    help="Number of sessions instead of the plan's; may be repeated.",
)
@click.option("--blocks", type=int, help="Number of blocks instead of the plan's.")
@click.option("--seconds", type=int, help="Length of each run in seconds instead of the plan's.")
@click.option(
    "--warmup", type=int, help="Warm-up before each run in seconds, instead of the plan's."
)
@running.server_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    plan: Path | None,
    output: Path | None,
    resume: Path | None,
    forecast: bool,
    server_bin: Path | None,
    force: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Run every cell of a plan, all variants of it in randomised blocks.

    \b
    Examples:
      mrtuner bench run plan.toml
      mrtuner bench run plan.toml --dir run1
      mrtuner bench run plan.toml --forecast
      mrtuner bench run plan.toml --scale 10 --clients 4 --seconds 20
      mrtuner bench run --resume run1                after a Ctrl-C or a crash

    Temporary servers are created and removed. Ctrl-C keeps what was measured.
    """
    if (plan is None) is (resume is None):
        raise UsageError("bench run needs a plan", "Give a file, or --resume DIR.")
    if resume is not None and (
        forecast or output is not None or any(value not in (None, ()) for value in given.values())
    ):
        raise UsageError("--resume uses the run's own directory and plan", "Leave out the rest.")
    if resume is not None:
        running.go_on(ctx, resume, server_bin, force, as_json)
        return
    from mrtuner.bench.plan.toml import read_plan

    assert plan is not None  # noqa: S101 - one of the two is given
    wanted = _shortened(read_plan(plan), given)
    if forecast:
        running.tell_forecast(wanted, as_json)
        return
    running.begin(ctx, wanted, output, server_bin, force, as_json)


def _shortened(plan: Plan, given: dict[str, Any]) -> Plan:
    """Return the plan with the command line's values; the record stores it as it was run."""
    names = {"scale": "scales"}
    instead = {
        names.get(name, name): value for name, value in given.items() if value not in (None, ())
    }
    return replace(plan, **instead)
