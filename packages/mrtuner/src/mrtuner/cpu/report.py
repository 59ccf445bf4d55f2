"""A consistency test as a report: lines for a terminal, or one HTML page with its chart.

Both use only the document ``mrtuner.cpu/1``, so they can be recreated from the JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from mrtuner.present import figures
from mrtuner.present.axes import grid, plain
from mrtuner.present.html import rendered
from mrtuner.text_tables import aligned, bulleted
from mrtuner.wording import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mrtuner.cpu.diagnose import Knee, SiblingThreads
    from mrtuner.cpu.document import CpuDocument
    from mrtuner.cpu.levels import CpuLevel

#: Line width of text on a terminal.
WIDE: Final = 100

#: For the verdict: what happens with more workers.
_BEYOND: Final = {
    "sibling threads": "two share one core",
    "frequency or cache": "all slow down equally",
    "unequal CPUs": "some slow down more than others",
    "saturation": "they wait for a free CPU",
    "quota": "the CPU quota stops them",
    "other work": "other programs use these CPUs too",
    "steal": "the hypervisor gives CPU time to other guests",
    "unknown": "something unknown slows them down",
}
_CAUSES: Final = {
    "sibling threads": "two workers share one core",
    "frequency or cache": "all workers slow down equally, whichever CPUs they run on",
    "unequal CPUs": "some workers slow down more than others, so their CPUs are unequal",
    "saturation": "more workers than CPUs, so they take turns",
    "quota": "all workers are stopped for the rest of each period",
    "other work": "other programs use these CPUs too",
    "steal": "the hypervisor gives CPU time to other guests",
    "unknown": "the measurements do not show the cause",
}


@figures.for_every_screen()
def page(told: CpuDocument) -> str:
    """Return the test as one HTML document; the same input gives the same text.

    Raises MissingPart without jinja2 or matplotlib.
    """
    return rendered(
        Path(__file__).with_suffix(".html"),
        told=told,
        verdict=verdict(told),
        facts=list(_facts(told)),
        rows=[_row(level, told) for level in told.diagnosis.levels],
        heads=_HEADS,
        picture=picture(told, key="cpu"),
    )


def lines(told: CpuDocument) -> Iterator[str]:
    """Yield the test for a terminal, one line at a time."""
    yield verdict(told)
    yield ""
    for name, text in _facts(told):
        yield from wrap(text, WIDE, initial_indent=f"{name:<18}", subsequent_indent=" " * 18)
    yield ""
    rows = [_HEADS, *(_row(level, told) for level in told.diagnosis.levels)]
    yield from aligned(rows, right=range(len(_HEADS)))
    yield from bulleted("what to do", told.advice)
    yield from bulleted("cautions", told.notes)


def verdict(told: CpuDocument) -> str:
    """Return whether equal work takes equal time, up to how many workers, and what the limit is."""
    found = told.diagnosis
    if found.incomplete and not found.bends:
        return f"Undecided: other work disturbed every trial of {_numbers(found.incomplete)}."
    first = _first_knee(told)
    beyond = [f"beyond {bend.at}, {_BEYOND[bend.cause]}" for bend in found.bends]
    if (uneven := _first_uneven(told)) is not None:
        first = max((each.count for each in found.levels if each.count < uneven), default=1)
        if first == 1:
            what = "; ".join(("although throughput grows", *beyond))
            return f"Two workers already take unequal times, {what}."
        beyond.insert(0, f"beyond {first}, throughput grows, but times are uneven")
    if not beyond:
        tried = plural(first, "worker")
        return f"Equal work takes equal time with up to {tried}, the most that were tried."
    what = "; ".join(beyond)
    if first == 1:
        return f"Two workers already take longer than one: {what}."
    return f"Equal work takes equal time with up to {plural(first, 'worker')}; {what}."


def _first_knee(told: CpuDocument) -> int:
    """Return the number of workers at the first knee, or else the most that were tried."""
    found = told.diagnosis
    return found.bends[0].at if found.bends else found.levels[-1].count


def _first_uneven(told: CpuDocument) -> int | None:
    """Return the fewest workers, up to the first knee, whose times are clearly uneven."""
    return next(
        (
            each.count for each in told.diagnosis.levels
            if each.clearly_uneven and each.count <= _first_knee(told)
        ),
        None,
    )  # fmt: skip


def _facts(told: CpuDocument) -> Iterator[tuple[str, str]]:
    found, where = told.diagnosis, told.place
    kind = " ".join(filter(None, (where.platform, where.model, where.architecture)))
    yield "where", f"{kind}; work: {told.plan.mode}"
    yield "usable CPUs", told.usable.words
    yield "threads per core", _threads(found.threads)
    if found.effective_cores is not None:
        best = f"; reached with {plural(found.best, 'worker')}" if found.best else ""
        yield "effective cores", f"{found.effective_cores:.2f} times one worker alone{best}"
    for level in _telling(told):
        yield f"V at {level.count}", _evenness(level)
    for bend in found.bends:
        yield f"after {bend.at}", _growth(bend)
    if found.identity is not None:
        yield (
            "accounting",
            (f"wall = cpu + run delay + rest; the rest is at most {_percent(found.identity)}"),
        )
    if found.incomplete:
        yield "not measured", f"{_numbers(found.incomplete)}: other work disturbed every trial"


def _telling(told: CpuDocument) -> list[CpuLevel]:
    """Return the levels with as many workers as cores or CPUs, at each knee and just beyond it.

    Times that are uneven before the first knee are shown too.
    """
    cpus, cores = told.usable.may_run_on, len(told.topology.cores)
    knees = [bend.at for bend in told.diagnosis.bends]
    places = {cores, cpus, *knees, *(at + 1 for at in knees), _first_uneven(told)}
    return [each for each in told.diagnosis.levels if each.count in places - {1}]


def _threads(threads: SiblingThreads) -> str:
    hidden = "; hidden from the kernel" if threads.hidden else ""
    known = threads.per_core if threads.per_core is not None else "not known"
    return f"{known} ({threads.how}{hidden})"


def _evenness(level: CpuLevel) -> str:
    judged = "no more than chance"
    if level.uneven:
        judged = "uneven" if level.clearly_uneven else "slightly more than chance"
    slow = (
        f"; {_percent(level.slow_share)} of the workers take {level.slow_ratio:.2f} times "
        "as long as the others"
        if level.slow_ratio > 1  # in most trials, not by chance in one
        else ""
    )
    return f"{_percent(level.spread)}, by chance up to {_percent(level.chance)}: {judged}{slow}"


def _growth(bend: Knee) -> str:
    parts = ", ".join(
        f"{name} {grown:+z.2f} s"
        for name, grown in (("cpu", bend.cpu), ("run delay", bend.delay), ("rest", bend.rest))
        if grown is not None
    )
    throttled = f", {bend.throttled:.0f} periods throttled" if bend.throttled else ""
    return (
        f"{_CAUSES[bend.cause]}; each extra worker adds {bend.after:.2f} instead of "
        f"{bend.before:.2f}; {parts or 'CPU accounting is not visible'}{throttled}"
    )


_HEADS: Final = (
    "workers", "time, s", "fastest", "slowest", "V", "chance", "CV", "slow", "work", "cpu", "delay",
    "rest",
)  # fmt: skip


def _row(level: CpuLevel, told: CpuDocument) -> tuple[str, ...]:
    alone = told.diagnosis.levels[0]
    work = level.throughput / alone.throughput if alone.count == 1 else None
    seconds = (level.wall, level.fastest, level.slowest)
    shares = (level.spread, level.chance, level.variation, level.slow_share)
    return (
        str(level.count),
        *(f"{value:.2f}" for value in seconds),
        *map(_percent, shares),
        "–" if work is None else f"{work:.2f}",
        *map(_seconds, (level.cpu, level.delay, level.rest)),
    )


def _numbers(counts: Sequence[int]) -> str:
    return f"{', '.join(map(str, counts))} worker{'' if list(counts) == [1] else 's'}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:z.2f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if abs(share) < 0.0995 else f"{100 * share:.0f} %"


# The chart.


def picture(told: CpuDocument, *, key: str) -> str:
    """Draw each worker's time over the number of workers, and the throughput below."""
    with figures.canvas(height=430) as figure:
        work = figure.add_axes((0.09, 0.12, 0.88, 0.3))
        times = figure.add_axes((0.09, 0.5, 0.88, 0.44), sharex=work)
        _draw_times(times, told)
        _draw_work(work, told)
        return figures.finish(
            figure,
            key,
            title="Time of each worker over the number of workers",
            desc=f"{verdict(told)} The table below has every level.",
        )


def _draw_times(axes: Axes, told: CpuDocument) -> None:
    points = [
        (trial.count, worker.wall)
        for trial in told.trials
        for worker in trial.workers
        if not trial.rejected
    ]
    axes.plot(
        [_beside(place, count) for place, (count, _) in enumerate(points)],
        [wall for _, wall in points],
        "o", markersize=4, color="none", markeredgecolor=figures.PALETTE["b"].light,
    )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_ylabel("seconds")
    _draw_knees(axes, told, named=True)
    _dress(axes, told, bottom=False)


def _beside(place: int, count: int) -> float:
    """Return `count` shifted sideways a little, so that points do not overlap; always the same."""
    return count + 0.24 * (place * 0.618 % 1 - 0.5)


def _draw_work(axes: Axes, told: CpuDocument) -> None:
    levels = told.diagnosis.levels
    alone = next((each.throughput for each in levels if each.count == 1), None)
    if alone is not None:
        axes.plot(
            [each.count for each in levels], [each.throughput / alone for each in levels],
            "D-", markersize=4, linewidth=1, color=figures.PALETTE["a"].light,
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_ylabel("work (one worker = 1)")
    axes.set_xlabel("workers at the same time; dashed lines are knees")
    _draw_knees(axes, told, named=False)
    _dress(axes, told, bottom=True)


def _draw_knees(axes: Axes, told: CpuDocument, *, named: bool) -> None:
    limit = figures.PALETTE["limit"].light
    for bend in told.diagnosis.bends:
        axes.axvline(bend.at, color=limit, linewidth=1.2, linestyle=(0, (5, 3)))
        if named:
            axes.annotate(
                bend.cause, (bend.at, 1), xycoords=("data", "axes fraction"), xytext=(4, 2),
                textcoords="offset points", ha="left", va="bottom", color=limit,
            )  # fmt: skip


def _dress(axes: Axes, told: CpuDocument, *, bottom: bool) -> None:
    """Put whole numbers of workers on the x-axis; draw a light grid and no sides of a frame."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(0.5, max(told.plan.counts) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=16, integer=True, min_n_ticks=1))
    grid(axes, "y")
    plain(axes, bottom=bottom)
