"""A rehearsed outage as a report: lines for a terminal, one HTML page with its timeline.

Both use only the document ``mrtuner.rds.rehearsal/1``, so they can be recreated from the JSON.
There, times are seconds since the probes began; here, since the request to RDS.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mrtuner.present import figures
from mrtuner.present.html import rendered
from mrtuner.rehearsal.page import (
    Moment,
    by_time,
    in_order,
    met,
    moment_lines,
    shown,
)
from mrtuner.text_tables import bulleted
from rdstune.fleet.document import RehearsalDocument, RehearsalRun, ReportedMark


@figures.for_every_screen()
def page(told: RehearsalDocument) -> str:
    """Return the rehearsal as one HTML document; the same input gives the same text.

    Raises MissingPart without jinja2 or matplotlib.
    """
    runs = [shown(run, moments(run), str(number)) for number, run in enumerate(told.runs, 1)]
    return rendered(Path(__file__).with_suffix(".html"), told=told, runs=runs)


def lines(told: RehearsalDocument) -> Iterator[str]:
    """Yield the rehearsal for a terminal, one line at a time."""
    yield f"{told.instance}: {told.what} ({told.class_name}, {told.deployment})"
    for number, run in enumerate(told.runs, 1):
        yield ""
        yield (f"run {number}: " if len(told.runs) > 1 else "") + run.verdict
        if not run.observation.went_away:
            yield str(run.why_nothing)
        yield from moment_lines(moments(run))
    yield from bulleted("what to expect in production", told.expectations)
    yield from bulleted("what this does not show", told.limits)


def moments(run: RehearsalRun) -> tuple[Moment, ...]:
    """Return every event in order: the request, what RDS reported, what clients saw."""
    asked = run.asked
    told = [
        Moment(mark.at - asked, "RDS", _reported(mark), number)
        for number, mark in enumerate(by_time(run.marks), 1)
    ]
    return in_order([Moment(0.0, "client", "request sent to RDS"), *told, *met(run)])


def _reported(mark: ReportedMark) -> str:
    if mark.origin == "status":
        return f"status {mark.text}"
    return f"event: {mark.text}{'' if mark.by_aws_clock else ' (time when it was read)'}"
