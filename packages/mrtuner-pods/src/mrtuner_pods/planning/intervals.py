"""How far the figures of a plan depend on chance: the same simulations with other seeds.

An interval is the lowest and the highest of `SIMULATIONS` independent ones, the shown one among
them. It makes no assumption on how the figures are distributed: the median over all seeds lies in
it with a probability of 1 - 2 / 2^6, 97 %. Source: order statistics; Hahn and Meeker, Statistical
Intervals, chapter 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Annotated, Final

from mrtuner.described import Doc
from mrtuner_pods.planning.cpu_limits import request_of
from mrtuner_pods.planning.inputs import Question
from mrtuner_pods.planning.model import Alternative, Now, PodsWaiting
from mrtuner_pods.planning.runs import Runs
from mrtuner_pods.waiting.stages import Simulated, Site

#: How many simulations there are of each figure.
SIMULATIONS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsInterval:
    """The lowest and the highest value of a figure in several simulations."""

    figure: Annotated[str, Doc("its place in this document, such as `waiting.p95`")]
    low: Annotated[float, Doc("the lowest")]
    high: Annotated[float | None, Doc("the highest; null: one of them is unstable")]
    simulations: Annotated[int, Doc("with a seed each, the shown one included")]


class Repeated:
    """The same question with other seeds."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._runs = [
            Runs(replace(question, seed=question.seed + number)) for number in range(1, SIMULATIONS)
        ]

    def whole(self, site: Site, shown: Simulated, *, longer: int) -> Iterator[PodsInterval]:
        """Yield the intervals of what a whole simulation shows: waiting, and CPU."""
        every = [shown, *(runs.whole(site, longer=longer) for runs in self._runs)]
        waits = [self._runs[0].waiting(one) for one in every]
        for name in PodsWaiting.__dataclass_fields__:
            yield _interval(f"waiting.{name}", [getattr(one, name) for one in waits])
        yield _interval(
            "cpu.request", [request_of(self._question, site.layout, one) for one in every]
        )

    def alternatives(self, found: Sequence[Alternative]) -> Iterator[PodsInterval]:
        """Yield the interval of the p95 wait with each size of pod."""
        for number, one in enumerate(found):
            site = self._runs[0].site(one.layout)
            yield self._p95(f"alternatives.{number}.p95", site, one.p95)

    def as_it_is(self, figure: str, found: Now, site: Site) -> Iterator[PodsInterval]:
        """Yield the interval of the p95 wait of what is not planned; none if it has no wait."""
        if found.p95 is not None:
            yield self._p95(figure, site, found.p95)

    def _p95(self, figure: str, site: Site, shown: float) -> PodsInterval:
        return _interval(figure, [shown, *(runs.p95(site) for runs in self._runs)])


def _interval(figure: str, values: Sequence[float]) -> PodsInterval:
    high = max(values)
    return PodsInterval(
        figure=figure, low=min(values), high=high if isfinite(high) else None,
        simulations=len(values),
    )  # fmt: skip
