"""Plans under two sets of settings as text: side by side, with what changed them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from mrtuner.escape import printable
from mrtuner.present.text import heading, paragraph
from mrtuner.wording import enumerated

if TYPE_CHECKING:
    from mrtuner.present.text import Look
    from mrtuner.tuning.query_plans import ChangedPlan, Plans, Side

#: Lines shown of a statement's text; --json has all of it.
_MOST_LINES: Final = 6
_GAP: Final = "  "
_BETWEEN: Final = " | "


def plans(found: Plans, look: Look) -> Iterator[str]:
    """Yield the changed plans, the riskiest first; then what could not be explained."""
    yield from heading("plans, before and after", look)
    yield from paragraph(_summary(found), look)
    for one in found.changed:
        yield ""
        yield from _changed(one, look)
    for missed in found.not_explained:
        text = one_line(missed.statement.text)
        yield from paragraph(
            f"not explained: {textwrap.shorten(text, 60, placeholder=' ...')}: "
            f"{one_line(missed.why)}",
            look,
        )
    if found.left_out:
        yield from paragraph(
            f"not tried, because a session cannot set them: {', '.join(found.left_out)}",
            look,
            style="quiet",
        )


def _summary(found: Plans) -> str:
    if not found.settings:
        return "no advised setting can change a plan"
    tried = ", ".join(f"{name} {before} -> {after}" for name, before, after in found.settings)
    number = len(found.warnings)
    worse = f", {number} of them with a warning" if number else ""
    return (
        f"{found.explained} statements explained, never executed; {len(found.changed)} change"
        f"{worse}; tried: {tried}"
    )


def _changed(one: ChangedPlan, look: Look) -> Iterator[str]:
    statement = one.statement
    role = f" by {one_line(statement.role)}" if statement.role else ""
    yield look.painted(
        f"{one.verdict}: {statement.calls:,} calls{role}, {statement.seconds:,.1f} s in all",
        "heading",
    )
    yield from _text(statement.text, look)
    yield from _side_by_side(one, look)
    yield from paragraph(_cause(one), look)
    for sentence in _estimates(one):
        yield from paragraph(sentence, look)
    if one.warning:
        yield from paragraph(f"warning: {one.warning}", look, style="warning")


def _text(text: str, look: Look) -> Iterator[str]:
    wrapped = textwrap.wrap(one_line(text), max(look.width - len(_GAP), 20))
    for line in wrapped[:_MOST_LINES]:
        yield f"{_GAP}{line}"
    if len(wrapped) > _MOST_LINES:
        yield f"{_GAP}..."


def _side_by_side(one: ChangedPlan, look: Look) -> Iterator[str]:
    """Yield two columns, or one below the other on a narrow terminal."""
    before, after = _column("now", one.before), _column("then", one.after)
    if one.same_shape:
        yield from paragraph(f"the same plan, cost {one.before.cost:,.2f} -> {one.after.cost:,.2f}",
                             look)  # fmt: skip
        return
    width = max(map(len, before))
    if len(_GAP) + width + len(_BETWEEN) + max(map(len, after)) > look.width:
        yield from (f"{_GAP}{line}" for line in (*before, "", *after))
        return
    for left, right in zip_longest(before, after, fillvalue=""):
        yield f"{_GAP}{left.ljust(width)}{_BETWEEN}{right}".rstrip()


def _column(title: str, side: Side) -> list[str]:
    return [f"{title}: cost {side.cost:,.2f}", *(one_line(line, keep=True) for line in side.plan)]


def _cause(one: ChangedPlan) -> str:
    if one.same_shape:
        return "only the cost changes"
    if one.by:
        return f"changed by {enumerated(one.by, 'or')} alone"
    if one.also:
        third = ", ".join(one.also)
        return f"changed by several settings together; {third} alone gives a third plan"
    return "changed by several settings together"


def _estimates(one: ChangedPlan) -> Iterator[str]:
    if not one.same_shape:
        now, then = _times(one.believed_now), _times(one.believed_then)
        yield (
            f"the new plan's cost is {now} the old one's with the cost settings in force, "
            f"{then} with the advised ones"
        )
    if abs(one.limits - 1) > 0.05:
        yield (
            f"with only its limits changed (such as work_mem), it costs {one.limits:.2f} times "
            "as much"
        )


def _times(ratio: float | None) -> str:
    return "an unknown multiple of" if ratio is None else f"{ratio:.2f} times"


def one_line(text: str, *, keep: bool = False) -> str:
    """Return a server's text as one safe line for a terminal, with other characters as ``\\\\x1b``.

    >>> one_line("SELECT 1\\n  -- \\x1b[2J")
    'SELECT 1 -- \\\\x1b[2J'
    """
    return printable(text if keep else " ".join(text.split()))
