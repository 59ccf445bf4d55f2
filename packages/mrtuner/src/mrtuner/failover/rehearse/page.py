"""A rehearsed failover as a report: lines for a terminal, one HTML page with its timeline.

Both use only the document ``mrtuner.failover.rehearsal/1``, so they can be recreated from the
JSON. There, times are seconds since the probes began; here, since the failover was triggered.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

from mrtuner.failover.predict.document import PredictedCase
from mrtuner.failover.rehearse.document import MeasuredHang, RehearsalDocument, RehearsedWay
from mrtuner.present import figures
from mrtuner.present.html import rendered
from mrtuner.rehearsal.page import (
    WIDE,
    Moment,
    by_time,
    in_order,
    met,
    moment_lines,
    shown,
)
from mrtuner.text_tables import aligned, bulleted


@figures.for_every_screen()
def page(told: RehearsalDocument) -> str:
    """Return the rehearsal as one HTML document; the same input gives the same text.

    Raises MissingPart without jinja2 or matplotlib.
    """
    ways = [shown(way, moments(way), way.way) for way in told.ways]
    template = Path(__file__).with_suffix(".html")
    return rendered(template, told=told, ways=ways, pretty_prediction=pretty_prediction)


def lines(told: RehearsalDocument) -> Iterator[str]:
    """Yield the rehearsal for a terminal, one line at a time."""
    yield told.trigger
    for way in told.ways:
        yield ""
        yield from wrap(f"{way.way} ({way.place}): {' '.join(way.findings)}", WIDE)
        yield from moment_lines(moments(way))
        yield ""
        yield from _hangs(way)
    yield from bulleted("what this does not show", told.limits)


def moments(way: RehearsedWay) -> tuple[Moment, ...]:
    """Return every event in order: the trigger, what each side reported, what clients saw."""
    asked = way.asked
    told = [
        Moment(mark.at - asked, mark.origin, mark.text, number)
        for number, mark in enumerate(by_time(way.marks), 1)
    ]
    at = way.moments.reconnect
    if at is not None:
        told.append(Moment(at, "client", "a held connection was replaced and got an answer"))
    return in_order([Moment(0.0, "we", "triggered it"), *told, *met(way)])


def _hangs(way: RehearsedWay) -> Iterator[str]:
    """Yield a client's longest wait in each case, and the prediction for a silent server."""
    head = ("  case", "waited at most", "predicted, if the server vanishes")
    rows = [(f"  {one.words}", waited(one), pretty_prediction(one.predicted)) for one in way.hangs]
    yield from aligned([head, *rows], right={1})


def waited(hang: MeasuredHang) -> str:
    """Return ``3.1 s``, ``over 30.0 s`` where we gave up, or ``none``."""
    if hang.longest is None:
        return "none"
    return f"{'over ' if hang.at_least else ''}{hang.longest:.1f} s"


def pretty_prediction(predicted: PredictedCase | None) -> str:
    """Return a prediction in the words of `failover predict`."""
    from mrtuner.failover.predict.hang_times import pretty_span

    if predicted is None:
        return "not known"
    return f"{pretty_span(predicted.span)}, by {predicted.decided_by}"
