"""A tuning as text for a terminal, and the plan of a change: lines, one at a time; no I/O."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Final

from mrtuner.present.text import Look, heading, paragraph, table, titled
from mrtuner.text_tables import GAP, wrapped
from mrtuner.tuning.pgtune import SOURCE, differences, machine_of, measured_against
from mrtuner.units import pretty_bytes

if TYPE_CHECKING:
    from mrtuner.change.settings.plan import SettingsPlan, SettingStep
    from mrtuner.facts import Missing
    from mrtuner.tuning.advice import Advice, Recovery, Tuning
    from mrtuner.tuning.budget import Budget

_BAR: Final = 24
_RESTART: Final = " *"


def screen(tuning: Tuning, look: Look, *, everything: bool = False) -> Iterator[str]:
    """Yield the whole answer: machine, advice by area, budget, notes and next steps.

    With `everything`, settings that need no change are listed too.
    """
    yield from titled(tuning.title, look)
    yield from _given(tuning, look)
    yield from dangers(tuning, look)
    yield from advice(tuning, look, everything=everything)
    if tuning.budget:
        yield from _budget(tuning.budget, tuning.budget_now, look)
    if tuning.recovery:
        yield from _recovery(tuning.recovery, look)
    yield from _notices(tuning, look)
    yield from _steps(tuning, look)
    yield from _suggestions(tuning, look)
    yield from _unknown(tuning, look)
    yield from _legend(tuning, look, everything)


def advice(tuning: Tuning, look: Look, *, everything: bool = False) -> Iterator[str]:
    """Yield the settings to change, one table per area."""
    shown = [item for item in tuning.values() if item.changes or (everything and _kept(item))]
    if not tuning.changes:
        yield ""
        yield "Nothing to change."
    header = ("setting", "now", *(("from",) if tuning.situation.live else ()), "advice", "why")
    tables = {
        area: [_cells(item, tuning.situation.live) for item in items]
        for area, items in groupby(shown, key=lambda item: item.rule.area)
    }
    head, *below = wrapped([header, *chain.from_iterable(tables.values())], look.width)
    rest = iter(below)
    for number, (area, rows) in enumerate(tables.items()):
        yield from heading(area, look)
        if number == 0:
            yield from (look.painted(line, "quiet") for line in head)
        yield from chain.from_iterable(islice(rest, len(rows)))


def _suggestions(tuning: Tuning, look: Look) -> Iterator[str]:
    suggested = [_cells(item, tuning.situation.live) for item in tuning.values() if item.suggested]
    if suggested:
        yield from heading("suggestions: for you to decide, never applied", look)
        yield from chain.from_iterable(wrapped(suggested, look.width))


def _kept(item: Advice) -> bool:
    return not item.changes and not item.suggested


def _cells(item: Advice, live: bool) -> tuple[str, ...]:
    mark = _RESTART if item.parameter.restart and not _kept(item) else ""
    value = "keep" if _kept(item) else item.value + mark
    if _is_unknown(item):
        value = "unknown"
    origin = (item.origin.replace("postgresql.auto.conf", "auto.conf"),) if live else ()
    return (item.name, item.current or "-", *origin, value, item.reason)


def _is_unknown(item: Advice) -> bool:
    return hasattr(item.verdict, "missing")


def _given(tuning: Tuning, look: Look) -> Iterator[str]:
    inputs = ", ".join(f"{item.name} {item.value} ({item.source})" for item in tuning.given)
    yield from paragraph(inputs, look, style="quiet")


def dangers(tuning: Tuning, look: Look) -> Iterator[str]:
    if tuning.dangers:
        yield from heading("danger: what can go wrong with the settings in force", look)
    for notice in tuning.dangers:
        yield from paragraph(notice.text, look, style="warning")


def _budget(budget: Budget, now: Budget | None, look: Look) -> Iterator[str]:
    share = budget.ceiling / budget.memory
    before = f"; {pretty_bytes(now.total)} with the settings in force" if now else ""
    yield from heading(
        f"memory budget: worst case {pretty_bytes(budget.total)} of the "
        f"{pretty_bytes(budget.ceiling)} allowed ({share:.0%} of "
        f"{pretty_bytes(budget.memory)}){before}",
        look,
    )
    table = [
        (part.name, pretty_bytes(part.size), _bar(part.size, budget, look), part.how)
        for part in budget.parts
    ]
    left = budget.ceiling - budget.total
    table.append(("left over" if left >= 0 else "too much", pretty_bytes(abs(left)), "", ""))
    yield from chain.from_iterable(wrapped(table, look.width, right={1}))


def _bar(size: int, budget: Budget, look: Look) -> str:
    """Return a bar for a part's share of the ceiling; any part above zero is visible."""
    length = round(_BAR * size / max(budget.ceiling, budget.total))
    return look.bar * max(length, 1 if size > 0 else 0)


def _recovery(recovery: Recovery, look: Look) -> Iterator[str]:
    yield from heading("after a crash", look)
    yield from paragraph(
        f"up to {pretty_bytes(recovery.wal)} of WAL to replay ({recovery.how}): about "
        f"{_duration(recovery.fast)} to {_duration(recovery.slow)} {recovery.pace}",
        look,
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _notices(tuning: Tuning, look: Look) -> Iterator[str]:
    notices = [notice for notice in tuning.notices if notice.level != "danger"]
    if notices:
        yield from heading("notices", look)
    for notice in notices:
        if notice.level == "warning":
            yield from paragraph(f"warning: {notice.text}", look, style="warning")
        else:
            yield from paragraph(notice.text, look)


def _steps(tuning: Tuning, look: Look) -> Iterator[str]:
    if tuning.steps:
        yield from heading("manual steps", look)
    for step in tuning.steps:
        yield from paragraph(step.purpose, look)
        for command in step.commands:
            yield f"{GAP}{GAP}{command}"  # never wrapped, so that it can be copied
        words = [("now ", step.now), ("risk: ", step.risk)]
        if said := "; ".join(name + text for name, text in words if text):
            yield from paragraph(f"  {said}", look, style="quiet")


def _unknown(tuning: Tuning, look: Look) -> Iterator[str]:
    told = {item.name for item in tuning.given}
    gaps = [_gap(gap) for gap in tuning.missing if gap.name not in told]
    gaps += [f"{item.name}: {item.reason}" for item in tuning.values() if _is_unknown(item)]
    if gaps:
        yield from heading("unknown", look)
    for text in gaps:
        yield from paragraph(text, look)


def _gap(gap: Missing) -> str:
    remedy = f" (give {gap.option})" if gap.option else f". {gap.hint}" if gap.hint else ""
    return f"{gap.name}: {gap.why}{remedy}"


def _legend(tuning: Tuning, look: Look, everything: bool) -> Iterator[str]:
    kept = sum(_kept(item) and not _is_unknown(item) for item in tuning.values())
    words = []
    if any(item.parameter.restart for item in tuning.values() if not _kept(item)):
        words.append("* needs a restart")
    if kept and not everything:
        words.append(f"{kept} more settings need no change: --all lists them")
    if words:
        yield ""
        yield look.painted("; ".join(words), "quiet")


def where_pgtune_differs(tuning: Tuning, look: Look) -> Iterator[str]:
    """Yield each setting to which PgTune gives another value, with its rule and our reason."""
    machine = machine_of(tuning.situation)
    yield from heading(f"where {SOURCE}, differs", look)
    if machine is None:
        yield from paragraph("unknown: its rules need memory and CPUs", look)
        return
    yield from paragraph(
        measured_against(tuning)
        or "not measured on such a machine: mrtuner bench compare measures both on yours",
        look,
    )
    found = differences(tuning)
    for one in found:
        yield from paragraph(f"{one.name}: {one.ours or '-'} here, {one.theirs} by PgTune", look)
        yield from paragraph(f"  PgTune: {one.rule}", look, style="quiet")
        yield from paragraph(f"  MrTuner: {one.reason}", look, style="quiet")
    if not found:
        yield from paragraph("nowhere: all its values are the same", look)
    yield from paragraph(f"its rules for Linux, data of {machine.data}", look, style="quiet")


def plan_of_change(plan: SettingsPlan, look: Look) -> Iterator[str]:
    """Yield what an apply would write, what it leaves unchanged and why, what it cannot do."""
    header = ("setting", "now", "becomes", "takes effect after")
    rows = [_step_cells(step) for step in plan.steps]
    if rows:
        yield from heading("the plan", look)
        yield from table(header, rows, look)
    for title, left in (("left alone", plan.left_alone), ("refused", plan.refused)):
        if left:
            yield from heading(title, look)
        for item in left:
            yield from paragraph(f"{item.name} = {item.value}: {item.why}", look)
    for when, others in (("at the next restart", plan.pending), ("with a reload", plan.reloaded)):
        if others:
            yield from heading(f"not part of this plan: takes effect {when}", look)
        for one in others:
            yield from paragraph(f"{one.name}: {one.before} becomes {one.value}", look)
    if plan.unchecked:
        yield from heading("not checked", look)
        for what in plan.unchecked:
            yield from paragraph(what, look, style="warning")
    if plan.elsewhere:
        yield from paragraph(plan.elsewhere, look, style="warning")


def _step_cells(step: SettingStep) -> tuple[str, ...]:
    when = "a restart" if step.restart else "a reload"
    return (step.name, step.before or "-", step.value, "; ".join([when, *step.notes]))
