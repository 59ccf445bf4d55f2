"""Reports on rehearsed outages of every kind: the events of a run, and its charts.

In the document of a run, times are seconds since the probes began; here, since it was triggered
(`asked`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from mrtuner.present import figures
from mrtuner.present.axes import grid, plain
from mrtuner.rehearsal.client_outages import gaps_since
from mrtuner.text_tables import aligned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mrtuner.rehearsal.document import AnswerGap, ClientOutage, ProbeLog
    from mrtuner.rehearsal.observation import ProbeKind

_MARKERS: Final = {"read": "o", "held": "s", "flight": "D", "held-write": "v", "write": "^"}
#: Line width of text on a terminal.
WIDE: Final = 100
#: A run this many times as long as its outage gets a second, zoomed chart.
_FAR: Final = 4.0


class Timed(Protocol):
    """What was reported at a time [s since the first probe]."""

    @property
    def at(self) -> float: ...


Mark = TypeVar("Mark", bound=Timed)


class Phases(Protocol):
    """The outage for each kind of client."""

    @property
    def clients(self) -> list[ClientOutage]: ...


class RunDocument(Protocol):
    """A run in the document of a rehearsal, of an instance on RDS or of any server."""

    @property
    def asked(self) -> float: ...
    @property
    def observation(self) -> ProbeLog: ...
    @property
    def phases(self) -> Phases: ...
    @property
    def marks(self) -> Sequence[Timed]: ...
    @property
    def verdict(self) -> str: ...


class Attempt(NamedTuple):
    """An attempt of a probe: when it was due [s since the trigger], and how long it took [s]."""

    kind: ProbeKind
    at: float
    latency: float
    error: str | None


@dataclass(frozen=True, slots=True)
class Moment:
    """One event: seconds after the trigger, its source, and a description."""

    at: float
    who: str  # client, RDS, …
    what: str
    mark: int | None = None  # its number in the chart


@dataclass(frozen=True, slots=True)
class Shown:
    """One run, ready for a page."""

    run: RunDocument
    moments: tuple[Moment, ...]
    pictures: tuple[str, ...]


def shown(run: RunDocument, moments: tuple[Moment, ...], name: str) -> Shown:
    """Return a run with its charts; `name` keeps their ids distinct on the page."""
    return Shown(run, moments, tuple(pictures(run, name)))


def moment_lines(moments: Iterable[Moment]) -> Iterator[str]:
    rows = [(f"  {one.at:+8.1f} s", one.who, one.what) for one in moments]
    yield from aligned(rows, right={0})


def in_order(moments: Iterable[Moment]) -> tuple[Moment, ...]:
    return tuple(sorted(moments, key=lambda moment: moment.at))


def by_time(marks: Sequence[Mark]) -> list[Mark]:
    return sorted(marks, key=lambda mark: mark.at)


def met(run: RunDocument) -> Iterator[Moment]:
    """Yield the last answer, first failure and next answer of every kind of client."""
    for one in run.phases.clients:
        yield from _met(one)


def _met(one: ClientOutage) -> Iterator[Moment]:
    if one.last_success is not None:
        yield Moment(one.last_success, "client", f"last answer: {one.kind.words}")
    if one.first_failure is not None:
        error = f": {one.errors[0]}" if one.errors else ""
        yield Moment(one.first_failure, "client", f"first failure: {one.kind.words}{error}")
    if one.first_success is not None:
        yield Moment(one.first_success, "client", f"answers again: {one.kind.words}")


def pictures(run: RunDocument, name: str) -> Iterator[str]:
    """Yield the whole run and, if the outage is small in it, a zoomed view of the outage."""
    whole, near = _whole(run), _near(run)
    yield timeline(run, whole, key=f"run-{name}")
    if near is not None and whole[1] - whole[0] > _FAR * (near[1] - near[0]):
        yield timeline(run, near, key=f"near-{name}")


def _whole(run: RunDocument) -> tuple[float, float]:
    return -run.asked, run.observation.seconds - run.asked


def _near(run: RunDocument) -> tuple[float, float] | None:
    asked = run.asked
    gaps = gaps_since(run.observation.gaps, asked)
    if not gaps:
        return None
    first = min(_edges(gap, run)[0] for gap in gaps) - asked
    last = max(_edges(gap, run)[1] for gap in gaps) - asked
    margin = max(1.0, 0.15 * (last - first))
    return first - margin, last + margin


def _edges(gap: AnswerGap, run: RunDocument) -> tuple[float, float]:
    """Return the answers around a gap [s]; else where it began, or the end of the observation."""
    start = gap.began if gap.last_answer is None else gap.last_answer
    end = run.observation.seconds if gap.answer is None else gap.answer
    return float(start), float(end)


def timeline(run: RunDocument, window: tuple[float, float], *, key: str) -> str:
    """Draw a lane for each kind of client, RDS's reports above, every attempt's latency below."""
    kinds = list(run.observation.kinds)
    lanes = 26 * len(kinds) + 34
    height = lanes + 190
    with figures.canvas(height=height) as figure:
        below, wide = 44 / height, 0.8
        dots = figure.add_axes((0.19, below, wide, 120 / height))
        bars = figure.add_axes((0.19, below + 132 / height, wide, lanes / height), sharex=dots)
        _draw_lanes(bars, run, kinds, window)
        _draw_latencies(dots, run, window)
        return figures.finish(
            figure,
            key,
            title=f"Time line, {window[0]:.0f} to {window[1]:.0f} s from the request",
            desc=f"{run.verdict} The tables below show every number.",
        )


def _draw_lanes(
    axes: Axes, run: RunDocument, kinds: Sequence[ProbeKind], window: tuple[float, float]
) -> None:
    well, away = figures.PALETTE["b"].light, figures.PALETTE["limit"].light
    start, end = _whole(run)
    for lane, kind in enumerate(kinds):
        axes.barh([lane], [end - start], left=start, height=0.5, color=well, alpha=0.35)
        for gap in run.observation.gaps:
            if gap.kind == kind:
                left, right = (edge - run.asked for edge in _edges(gap, run))
                axes.barh([lane], [right - left], left=left, height=0.62, color=away)
                _length(axes, left, right, lane, window)
    _draw_marks(axes, run, window)
    axes.set_yticks(range(len(kinds)), [kind.words for kind in kinds])
    axes.set_ylim(len(kinds) - 0.4, -1.1)
    axes.set_xlim(*window)
    plain(axes, bottom=False)


def _length(axes: Axes, left: float, right: float, lane: int, window: tuple[float, float]) -> None:
    """Write the length of the gap inside it if there is room, else next to it."""
    if right < window[0] or left > window[1]:
        return
    wide, text = window[1] - window[0], f"{right - left:.1f} s"
    if right - left > 0.09 * wide:
        middle = (max(left, window[0]) + min(right, window[1])) / 2
        paper = figures.PALETTE["paper"].light
        axes.text(middle, lane, text, ha="center", va="center", color=paper)
    elif right < window[0] + 0.88 * wide:
        axes.text(right + 0.008 * wide, lane, text, ha="left", va="center")
    else:
        axes.text(left - 0.008 * wide, lane, text, ha="right", va="center")


def _draw_marks(axes: Axes, run: RunDocument, window: tuple[float, float]) -> None:
    """Draw lines for the request and for RDS's reports; their numbers are those of the table."""
    soft, ink = figures.PALETTE["soft"].light, figures.PALETTE["ink"].light
    axes.axvline(0, color=ink, linewidth=1.5, linestyle=(0, (5, 3)))
    taken = -float("inf")
    for number, mark in enumerate(by_time(run.marks), 1):
        at = mark.at - run.asked
        if not window[0] <= at <= window[1]:
            continue
        axes.axvline(at, color=soft, linewidth=0.8)
        shown = max(at, taken + 0.03 * (window[1] - window[0]))
        taken = shown
        axes.text(
            shown + 0.004 * (window[1] - window[0]), -0.75, str(number),
            ha="left", va="center", color=soft,
        )  # fmt: skip


def _draw_latencies(axes: Axes, run: RunDocument, window: tuple[float, float]) -> None:
    good, bad = figures.PALETTE["b"].light, figures.PALETTE["limit"].light
    for kind, marker in _MARKERS.items():
        points = [row for row in _attempts(run) if row.kind == kind]
        well = [row for row in points if row.error is None]
        _dots(axes, well, marker, color="none", edge=good)
        _dots(axes, [row for row in points if row.error], "x", color=bad, edge=bad)
    axes.axvline(0, color=figures.PALETTE["ink"].light, linewidth=1.5, linestyle=(0, (5, 3)))
    axes.set_yscale("log")
    slowest = max((1000 * row.latency for row in _attempts(run)), default=0.0)
    axes.set_ylim(1, max(1000.0, 2 * slowest))
    axes.set_ylabel("latency, ms")
    axes.set_xlabel("seconds from the request; crosses are failed attempts")
    axes.set_xlim(*window)
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(_plain_number)
    grid(axes, "y")
    plain(axes)


def _attempts(run: RunDocument) -> Iterator[Attempt]:
    for kind, due, _sent, _asked, ended, error, _server in run.observation.attempts:
        yield Attempt(kind, due - run.asked, ended - due, error)


def _dots(axes: Axes, rows: Sequence[Attempt], marker: str, *, color: str, edge: str) -> None:
    if rows:
        axes.plot(
            [row.at for row in rows],
            [max(1.0, 1000 * row.latency) for row in rows],
            marker, markersize=4, color=color, markeredgecolor=edge, markeredgewidth=1,
        )  # fmt: skip


def _plain_number(value: float, _position: object) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
