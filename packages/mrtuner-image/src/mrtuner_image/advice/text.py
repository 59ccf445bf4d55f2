"""Advice for an image as lines for a terminal, from ``mrtuner.image.advise/1`` alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from mrtuner.text_tables import aligned
from mrtuner.units import pretty_bytes
from mrtuner.wording import enumerated, plural
from mrtuner_image.text import known_bytes

if TYPE_CHECKING:
    from mrtuner_image.advice.document import (
        ExpectedBytes,
        ImageAdvice,
        ImageAdviceDocument,
        SavedBytes,
    )


def lines(told: ImageAdviceDocument) -> Iterator[str]:
    """Yield the cost of a deploy, the table, each piece of advice with its risk, and the notes."""
    yield from answer(told)
    if not told.advice:
        yield ""
        yield from notes(told)
        return
    yield ""
    yield from aligned([HEADS, *rows(told.advice)], right={2, 3, 4, 5})
    yield ""
    for one in told.advice:
        yield from _piece(one)
    yield ""
    yield from notes(told)


#: Fewer bytes than this, saved or added, are not shown exactly; --json has them.
_LITTLE: Final = 1024
#: Headings of the columns of `rows`.
HEADS = ("no.", "rule", "sent", "rebuilt", "pushed", "image")


def rows(advice: Sequence[ImageAdvice]) -> list[tuple[str, ...]]:
    """Return a row for each piece of advice, with the bytes that it saves."""
    return [
        (
            str(one.number), one.rule, saved(one.saved.sent),
            saved(one.saved.rebuilt), saved(one.saved.pushed),
            saved(one.saved.image),
        )
        for one in advice
    ]  # fmt: skip


def saved(found: SavedBytes) -> str:
    """Return the bytes saved; 0 for none, or for less than 1 kB added."""
    if found.known is None or (found.precision != "exact" and found.known < _LITTLE):
        return "unknown"
    if found.precision == "exact":
        if abs(found.known) >= _LITTLE:
            return pretty_bytes(found.known)
        return "under 1 kB" if found.known > 0 else "0"
    return f"{found.precision} {pretty_bytes(found.known)}"


def expected(found: ExpectedBytes) -> str:
    """Return the bytes expected in a deploy, as far as they are known."""
    return known_bytes(found.known, more=found.more)


def answer(told: ImageAdviceDocument) -> Iterator[str]:
    """Yield what a deploy costs now, and with the advice."""
    before, after = told.before, told.together.after
    yield (
        f"A deploy sends {pretty_bytes(before.sent)} and pushes {expected(before.pushed)} "
        "on average."
    )
    if not told.advice and not told.together.titles:
        yield "No rule finds anything that would make it cheaper."
        return
    yield (
        f"With {plural(len(told.together.titles), 'change')} together it sends "
        f"{pretty_bytes(after.sent)} and pushes {expected(after.pushed)}."
    )


def _piece(one: ImageAdvice) -> Iterator[str]:
    yield from wrap(
        f"{one.title}. Risk: {one.risk}", 96, initial_indent=f"{one.number:>3}  ",
        subsequent_indent="     ", break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def notes(told: ImageAdviceDocument) -> Iterator[str]:
    """Yield the assumptions behind the numbers."""
    yield f"Deploys are {told.deploys}."
    if told.arguments:
        yield f"Every deploy is assumed to pass a new {enumerated(told.arguments)}."
    if told.together.needless:
        numbers = enumerated(told.together.needless)
        yield f"Together, {numbers} would save nothing more, and is left out of the patch."
    yield (
        f"Bytes by the rules of {told.builder}, before building: unknown bytes are known "
        "only after a build."
    )
