"""What `mrtuner vacuum apply` and `vacuum undo` do: set and restore storage parameters."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrtuner.cli.common import change, terminal, watch_progress
from mrtuner.escape import printable
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.change.journal import Journal
    from mrtuner.change.record import Outcome, ParameterChange
    from mrtuner.cli.common.options import Asked
    from mrtuner.vacuum import Vacuum


def put(
    dsn: str,
    watch: float | None,
    sample: tuple[str, ...],
    asked: Asked,
    *,
    history: Path | None = None,
    instance: str | None = None,
) -> None:
    """Measure, show the plan, ask, and set what is advised for tables."""
    from mrtuner.vacuum.apply import apply, plan

    with asked.book() as book:
        recovered = _finish_interrupted(dsn, book)
        found, cut_short = watch_progress.watched(
            dsn, watch, sample, history=history, instance=instance
        )
        if cut_short:
            terminal.print_note("the watch was incomplete, so nothing was set")
            raise click.exceptions.Exit(cut_short)
        entries = plan(dsn, found)
        _show("the plan", entries, _reasons(found))
        _of_the_server(found, dsn)
        if entries:
            asked.confirm(f"Set {_number(entries)}?")
        outcome = apply(dsn, entries, book)
    undo = _undo_command(dsn, asked.journal) if outcome.changed else None
    _finish(recovered, entries, outcome, undo, as_json=asked.as_json)


def take_back(dsn: str, asked: Asked) -> None:
    """Show what the last change set, ask, and restore what was there before."""
    from mrtuner.vacuum.apply import last, undo

    with asked.book() as book:
        recovered = _finish_interrupted(dsn, book)
        if recovered is not None and recovered.change_is_undone:
            _finish(recovered, (), recovered, None, as_json=asked.as_json)
            return
        done = last(dsn, book)
        entries = [] if done is None else _turned(done.entries)
        if done is not None:
            _show(f"undo of change {done.id}, made {done.began}", entries)
            asked.confirm(f"Restore {_number(entries)}?")
        outcome = undo(dsn, book)
    _finish(recovered, entries, outcome, None, as_json=asked.as_json)


def _finish_interrupted(dsn: str, book: Journal) -> Outcome | None:
    """Finish or revert what an interrupted run left half-done, and report it."""
    from mrtuner.vacuum.apply import finish_or_revert_storage_parameters

    outcome = finish_or_revert_storage_parameters(dsn, book)
    change.print_recovered(outcome)
    return outcome


def _turned(entries: Sequence[ParameterChange]) -> list[ParameterChange]:
    return [replace(one, before=one.after, after=one.before) for one in entries]


def _reasons(found: Vacuum) -> dict[str, str]:
    """Why each parameter is to be set, by its name in the plan."""
    from mrtuner.vacuum.apply import entry_name

    return {
        entry_name(one.table, item.name): item.because
        for one in found.tables
        for item in one.advice
    }


def _show(
    title: str, entries: Sequence[ParameterChange], reasons: Mapping[str, str] | None = None
) -> None:
    """Print how each parameter changes, and why if reasons are given."""
    if entries:
        from mrtuner.present.text import heading, table

        look = terminal.look(sys.stderr)
        header: tuple[str, ...] = ("parameter", "now", "becomes")
        rows = [(printable(one.name), _text(one.before), _text(one.after)) for one in entries]
        for line in heading(title, look):
            terminal.print_note(line)
        if reasons is None:
            shown = table(header, rows, look)
        else:
            why = [(*row, reasons[one.name]) for row, one in zip(rows, entries, strict=True)]
            shown = table((*header, "why"), why, look)
        for line in shown:
            terminal.print_note(line)


def _of_the_server(found: Vacuum, dsn: str) -> None:
    """Print how to apply the advised server settings: a separate change with its own undo."""
    if found.settings:
        names = ", ".join(f"{one.name} = {one.value}" for one in found.settings)
        where = shlex.quote(change.dsn_without_secrets(dsn))
        terminal.print_note(
            f"server settings, not set here: {names}; write them with --format conf > "
            f"server.conf, then run: mrtuner apply {where} --from server.conf"
        )


def _text(value: str | None) -> str:
    return "unset" if value is None else value


def _number(entries: Sequence[ParameterChange]) -> str:
    from mrtuner.vacuum.apply import table_of

    tables = len({table_of(one) for one in entries})
    return f"{plural(len(entries), 'parameter')} of {plural(tables, 'table')}"


def _undo_command(dsn: str, journal: Path | None) -> str:
    return change.command_line(
        ["mrtuner", "vacuum", "undo", change.dsn_without_secrets(dsn)], journal
    )


def _finish(
    recovered: Outcome | None,
    entries: Sequence[ParameterChange],
    outcome: Outcome,
    undo: str | None,
    *,
    as_json: bool,
) -> None:
    if as_json:
        from mrtuner.vacuum.document import change_document

        terminal.document(change_document(recovered, entries, outcome, undo))
        return
    terminal.print_lines(_outcome_lines(outcome))
    if undo:
        terminal.print_note(f"to undo: {undo}")


def _outcome_lines(outcome: Outcome) -> Iterator[str]:
    if outcome.result in {"nothing", "reverted"}:
        yield "nothing to change"
        return
    yield change.verified(outcome, "parameter")
    for name in outcome.left:
        yield f"left alone: {name} was changed since, or its table is gone"
