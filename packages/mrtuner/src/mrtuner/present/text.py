"""A tuning as text for a terminal: lines, one at a time; no I/O.

Three tables share one layout (a name, figures, wrapped text). Colour and the bar's glyph are
parameters, so that the same lines work for a terminal, a pipe and a test.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from mrtuner.units import pretty_bytes
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.change.settings.plan import SettingsPlan, SettingStep
    from mrtuner.facts import Missing
    from mrtuner.tuning.advice import Advice, Recovery, Tuning
    from mrtuner.tuning.budget import Budget

#: Text and the name of a style: heading, warning, quiet.
Paint = Callable[[str, str], str]

#: Text in a column narrower than this is harder to read than text on a line of its own.
_NARROW: Final = 32
#: A figure longer than this is wrapped, so as not to push all the text to the right.
_WIDEST: Final = 24
_BAR: Final = 24
_GAP: Final = "  "
_RESTART: Final = " *"
#: Needing this many times the blocks already run counts as out of reach.
_OUT_OF_REACH: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The width, the glyph for bars, and the function for colour (None: no colour)."""

    width: int = 100
    bar: str = "#"
    paint: Paint | None = None

    def painted(self, text: str, style: str) -> str:
        return self.paint(text, style) if self.paint and text else text


def screen(tuning: Tuning, look: Look, *, everything: bool = False) -> Iterator[str]:
    """Yield the whole answer: machine, advice by area, budget, notes and next steps.

    With `everything`, settings that need no change are listed too.
    """
    yield from _titled(tuning.title, look)
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
    widths = _widths([header, *(row for rows in tables.values() for row in rows)])
    for number, (area, rows) in enumerate(tables.items()):
        yield from heading(area, look)
        if number == 0:
            yield from _row(header, widths, look, style="quiet")
        for row in rows:
            yield from _row(row, widths, look)


def _suggestions(tuning: Tuning, look: Look) -> Iterator[str]:
    suggested = [_cells(item, tuning.situation.live) for item in tuning.values() if item.suggested]
    if suggested:
        yield from heading("suggestions: for you to decide, never applied", look)
        widths = _widths(suggested)
        for row in suggested:
            yield from _row(row, widths, look)


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
    """Yield what can go wrong with the settings in force."""
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
    widths = _widths(table)
    for row in table:
        yield from _row(row, widths, look, right=1)


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
            yield f"{_GAP}{_GAP}{command}"  # never wrapped, so that it can be copied
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


def heading(text: str, look: Look) -> Iterator[str]:
    """Yield a heading after an empty line."""
    yield ""
    yield from _titled(text, look)


def _titled(text: str, look: Look) -> Iterator[str]:
    yield from (look.painted(line, "heading") for line in textwrap.wrap(text, look.width))


def paragraph(text: str, look: Look, style: str | None = None) -> Iterator[str]:
    """Yield an indented paragraph; the lines after the first are indented a little more."""
    lines = textwrap.wrap(
        text,
        max(look.width, 20),
        initial_indent=_GAP,
        subsequent_indent=_GAP * 2,
        break_on_hyphens=False,
    )
    yield from (look.painted(line, style) if style else line for line in lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], look: Look) -> Iterator[str]:
    """Yield rows below a header; the last column takes the remaining width, and wraps."""
    widths = _widths([header, *rows])
    yield from _row(header, widths, look, style="quiet")
    for row in rows:
        yield from _row(row, widths, look)


def _widths(rows: Iterable[Sequence[str]]) -> list[int]:
    """Return the width of every column but the last, which takes the remaining width."""
    columns = list(zip(*(row[:-1] for row in rows), strict=True))
    first, *rest = (max(map(len, column)) for column in columns)
    return [first, *(min(width, _WIDEST) for width in rest)]


def _row(
    cells: Sequence[str],
    widths: Sequence[int],
    look: Look,
    *,
    right: int | None = None,
    style: str | None = None,
) -> Iterator[str]:
    """Yield one row; every cell wraps in its column, or below if there is too little room.

    `right` is the column that is right-aligned.
    """
    indent = len(_GAP) + sum(widths) + len(_GAP) * len(widths)
    beside = look.width - indent
    columns = [
        textwrap.wrap(cell, width, break_on_hyphens=False) or [""]
        for cell, width in zip(cells[:-1], widths, strict=True)
    ]
    fits = beside >= min(_NARROW, len(cells[-1]))
    room = beside if fits else max(look.width - len(_GAP) * 3, _NARROW)
    words = textwrap.wrap(cells[-1], room, break_on_hyphens=False)
    below = [] if fits else words
    columns.append(words if fits else [])
    for number in range(max(map(len, columns))):
        figures = [column[number] if number < len(column) else "" for column in columns]
        line = _line(figures, widths, right)
        yield look.painted(line, style) if style else line
    for line in below:
        yield f"{_GAP * 3}{line}"


def _line(figures: Sequence[str], widths: Sequence[int], right: int | None) -> str:
    cells = [
        figure.rjust(width) if number == right else figure.ljust(width)
        for number, (figure, width) in enumerate(zip(figures, widths, strict=False))
    ]
    return (_GAP + _GAP.join([*cells, *figures[len(widths) :]])).rstrip()


def entries(pairs: Iterable[tuple[str, str]], look: Look) -> Iterator[str]:
    """Yield named paragraphs; a repeated name is written only once."""
    listed = list(pairs)
    width = max(len(name) for name, _ in listed)
    before = None
    for name, text in listed:
        yield from _row(("" if name == before else name, text), [width], look)
        before = name


def sections(
    contents: Sequence[tuple[str, Sequence[tuple[str, str]]]], look: Look
) -> Iterator[str]:
    """Yield named paragraphs below headings, all in the same columns."""
    width = max(len(name) for _, pairs in contents for name, _ in pairs)
    for number, (title, pairs) in enumerate(contents):
        if number:
            yield ""
        yield look.painted(title, "heading")
        for pair in pairs:
            yield from _row(pair, [width], look)


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
    if plan.pending:
        yield from heading("not part of this plan: takes effect at the next restart", look)
        for one in plan.pending:
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


def still_needed(more: int, pairs: int) -> str:
    """Return how many more blocks would decide, or that this is out of reach.

    >>> still_needed(12, 6)
    'about 12 more blocks would decide'
    >>> still_needed(1148, 8)
    'such a small difference cannot be measured on this machine'
    """
    if more > _OUT_OF_REACH * pairs:
        return "such a small difference cannot be measured on this machine"
    return f"about {plural(more, 'more block')} would decide"
