"""p95 wait by density and routing, with the same number of workers in all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mrtuner.wording import plural
from mrtuner_pods.planning.inputs import Question
from mrtuner_pods.planning.model import Point, p95_of
from mrtuner_pods.planning.runs import Runs
from mrtuner_pods.waiting.queues import Layout
from mrtuner_pods.waiting.routing import Routing
from mrtuner_pods.wording import milliseconds

#: Densities in a chart; more only if the preferred ones alone are more.
_MOST_DENSITIES: Final = 6
#: Threads of one process in a chart, unless it has more as planned.
_MOST_THREADS: Final = 64
#: A gain below this share of the wait may be chance.
_MATTERS: Final = 0.1


def curve(question: Question, runs: Runs, layout: Layout) -> tuple[Point, ...]:
    """Return the waits of as many workers as `layout` has, divided among pods in other ways."""
    facts, whole = question.server.facts, layout.pods * layout.workers
    if facts.one_process:
        return _points(runs, [
            facts.layout(pods, 1, layout.slots // pods)
            for pods in reversed(densities(layout.slots, layout.pods))
            if layout.slots // pods <= max(_MOST_THREADS, layout.threads)
        ])  # fmt: skip
    return _points(runs, [
        facts.layout(whole // workers, workers, layout.threads)
        for workers in densities(whole, layout.workers)
    ])  # fmt: skip


def densities(workers: int, planned: int) -> list[int]:
    """Return numbers that divide all workers evenly, from one to all, the planned one included.

    >>> densities(24, 4), densities(7, 7)
    ([1, 2, 4, 8, 12, 24], [1, 7])
    """
    dividing = [number for number in range(1, workers + 1) if workers % number == 0]
    wanted = {1, planned, workers, *(2**power for power in range(8))}
    chosen = [number for number in dividing if number in wanted]
    others = [number for number in dividing if number not in wanted]
    return sorted(chosen + others[::-1][: max(0, _MOST_DENSITIES - len(chosen))])


def _points(runs: Runs, layouts: Sequence[Layout]) -> tuple[Point, ...]:
    return tuple(
        Point(routing=routing, layout=layout, p95=runs.p95(runs.site(layout, routing)))
        for routing in Routing
        for layout in layouts
    )


def routing_or_density(
    question: Question, points: Sequence[Point], base: Layout, most: int
) -> Iterator[str]:
    """Yield which helps `base` more: another routing, or as many workers in fewer pods."""
    now = p95_of(points, question.routing, base.workers)
    denser = max(
        (p.layout.workers for p in points if base.workers < p.layout.workers <= most), default=None
    )
    if now is None or question.server.facts.one_process:
        return
    routing, routed = min(
        ((each, p95_of(points, each, base.workers) or 0.0) for each in Routing),
        key=lambda pair: pair[1],
    )
    better = now - routed > _MATTERS * now
    if denser is None:
        if better:
            yield (
                f"Routing: {routing.words} waits {milliseconds(routed)} at p95 here, not "
                f"{milliseconds(now)}."
            )
        return
    dense = p95_of(points, question.routing, denser) or 0.0
    gained = f"{denser} workers a pod instead of {base.workers}: {milliseconds(dense)}"
    if better and routed < dense:
        yield (
            f"Change the routing before the density: {routing.words} with "
            f"{plural(base.workers, 'worker')} a pod waits {milliseconds(routed)} at p95, "
            f"{question.routing.words} {milliseconds(now)}; {gained}."
        )
    elif now - dense > _MATTERS * now:
        other = f"; {routing.words}: {milliseconds(routed)}" if better else ""
        yield (
            f"Density matters more than routing: as many workers, {gained} at p95, not "
            f"{milliseconds(now)}{other}."
        )
