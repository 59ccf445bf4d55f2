"""Ceilings, when they were reached and the remedies, as tables of the headroom screen.

They show the document that `mrtuner limits --json` prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from mrtuner.answers.ceilings import Judged
from mrtuner.limits.confirmation import Support
from mrtuner.limits.document import (
    CeilingEntry,
    ClassCandidate,
    LimitsDocument,
    PeggedResource,
    limits_document,
)
from mrtuner.limits.levels import DISK
from mrtuner.limits.sentences import quantity
from mrtuner.limits.text import demand_words, forecast_words
from mrtuner.web.screens.screen import Table
from mrtuner.wording import enumerated

#: The table to which reached ceilings link.
_REMEDIES: Final = "remedies"
_REACHED: Final = (
    ("ceiling", "Ceiling", "text"),
    ("value", "Its level", "text"),
    ("reached", "Reached at", "text"),
    ("seconds", "For", "s"),
    (_REMEDIES, "Remedies", f"to:{_REMEDIES}"),
    ("longest", "Longest", "s"),
    ("first", "First", "moment"),
    ("last", "Last", "moment"),
    ("evidence", "How sure", "text"),
    ("origin", "Set by", "text"),
)
_STRETCHES: Final = (
    ("begin", "From", "moment"),
    ("end", "To", "time"),
    ("seconds", "For", "s"),
    ("ceiling", "Ceiling", "text"),
    ("reached", "Reached at", "text"),
)
_CANDIDATES: Final = (
    ("class", "Class", "text"),
    ("vcpus", "vCPUs", "integer"),
    ("memory", "Memory", "bytes"),
    ("storage", "Volume", "text"),
    ("room", "Room", "text"),
)
#: Number of stretches listed, the latest first.
_MOST: Final = 200


def tables(found: Sequence[Judged], more: Sequence[str]) -> Iterator[Table]:
    """Yield the ceilings and the remedies; `more` is advice besides that of `limits`.

    `found` has one judgement for each class and volume that the instance had in the period.
    """
    begin, end = found[0].about.begin, found[-1].about.end
    title = f"Ceilings, judged from {_minute(begin)} to {_minute(end)} UTC"
    parts = [(one.about, limits_document(one.limits)) for one in found if one.limits is not None]
    if not parts:
        why = found[-1].why
        yield Table(name="ceilings", title=title, columns=_REACHED, rows=(), missing=why)
        yield _remedies("Remedies", more, "nothing was judged")
        return
    yield Table(
        name="ceilings", title=title, columns=_REACHED,
        rows=list(_reached_first([told for _, told in parts])),
        missing="no limit of this instance is known, and none was learnt",
    )  # fmt: skip
    last, now = parts[-1]
    about, told = next((part for part in reversed(parts) if part[1].pegged), parts[-1])
    nothing = f"{told.verdict}: there is nothing to do"
    heading, since = told.verdict, []
    if about is not last:  # the ceiling belongs to an earlier class or volume
        heading = f"From {_minute(about.begin)} to {_minute(about.end)} UTC: {heading}"
        since = [f"Since {_minute(last.begin)} UTC, with other limits: {now.verdict}."]
    yield _remedies(heading, [*more, *since, *_sentences(told)], nothing)
    if told.candidates:
        yield Table(
            name="candidates", title="Enough, the smallest first", columns=_CANDIDATES,
            rows=[_candidate(one) for one in told.candidates],
        )  # fmt: skip
    if told.pegged:
        yield Table(
            name="stretches", title="When a ceiling was reached, the latest first",
            columns=_STRETCHES, rows=_stretches([each for _, each in parts])[:_MOST],
        )  # fmt: skip


def _remedies(heading: str, advice: Sequence[str], nothing: str) -> Table:
    return Table(
        name=_REMEDIES, title="Remedies", columns=(("advice", heading, "prose"),),
        rows=[{"advice": text} for text in advice], missing=nothing,
    )  # fmt: skip


def _minute(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


def _sentences(told: LimitsDocument) -> Iterator[str]:
    """Yield what `mrtuner limits` prints below the ceilings, as sentences."""
    yield from told.advice
    yield from (f"Hidden demand: {demand_words(one)}." for one in told.needs if one.hidden)
    yield from (f"When: {forecast_words(one)}." for one in told.forecasts)
    yield from (f"Note: {text}." for text in told.notices)


def _reached_first(parts: Sequence[LimitsDocument]) -> Iterator[dict[str, Any]]:
    """Yield every ceiling reached, the longest first, then the others that hold at the end."""
    rows: dict[Any, dict[str, Any]] = {}
    for told in parts:
        for one in told.pegged:
            row = _pegged(one, told.step)
            # A learnt level may be a different ceiling each time.
            key = (row["ceiling"], row["value"]) if "value" in row else len(rows)
            rows[key] = _together(rows[key], row) if key in rows else row
    yield from sorted(rows.values(), key=lambda row: -row["seconds"])
    reached = {
        name for told in parts for one in told.pegged for name in (_name(one), *one.others)
    }  # fmt: skip
    for ceiling in parts[-1].ceilings:
        if ceiling.name not in reached:
            yield _ceiling(ceiling.name, ceiling)


def _together(one: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two rows of one ceiling that was reached before and after a change."""
    longer = max(one, later, key=lambda row: row["longest"])
    return {
        **longer, "seconds": one["seconds"] + later["seconds"],
        "first": one["first"], "last": later["last"],
    }  # fmt: skip


def _name(pegged: PeggedResource) -> str:
    of = pegged.ceiling
    return f"unknown {pegged.resource} ceiling" if of is None else of.name


def _ceiling(name: str, of: CeilingEntry | None) -> dict[str, Any]:
    if of is None:
        return {"ceiling": name, "origin": "no known limit: learnt from the load"}
    value = quantity(of.resource, of.value)
    return {"ceiling": name, "value": value, "origin": f"{of.source} {of.note}".strip()}


def _pegged(one: PeggedResource, step: int) -> dict[str, Any]:
    level = quantity(one.resource, one.level)
    others = f", or {enumerated(one.others, 'or')}" if one.others else ""
    sure = [said.metric for said in one.evidence if said.says == Support.CONFIRMS]
    return _ceiling(_name(one) + others, one.ceiling) | {
        "reached": level, "seconds": one.minutes * 60, "longest": one.longest_minutes * 60,
        "first": _seconds(one.spans[0][0]),
        # The end of a stretch is that of its last step, in which the ceiling was still reached.
        "last": _seconds(one.spans[-1][1]) - step,
        "evidence": f"confirmed by {enumerated(sure)}" if sure else "no other metric confirms it",
        _REMEDIES: "what to do",
    }  # fmt: skip


def _stretches(parts: Sequence[LimitsDocument]) -> list[dict[str, Any]]:
    found = [
        {
            "begin": begin,
            "end": end,
            "seconds": end - begin,
            "ceiling": _name(one),
            "reached": quantity(one.resource, one.level),
        }
        for told in parts
        for one in told.pegged
        for begin, end in (map(_seconds, span) for span in one.spans)
    ]
    return sorted(found, key=lambda row: -row["begin"])


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _candidate(one: ClassCandidate) -> dict[str, Any]:
    room = [
        f"{each.resource} {each.headroom:.2f}×" for each in one.resources
        if each.headroom is not None and each.resource in DISK
    ]  # fmt: skip
    return {
        "class": one.class_name, "vcpus": one.vcpus, "memory": one.memory, "storage": one.storage,
        "room": ", ".join(room),
    }  # fmt: skip
