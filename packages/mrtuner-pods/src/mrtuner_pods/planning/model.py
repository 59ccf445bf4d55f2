"""A plan: what to run, its waits, and why. Times in seconds, CPU in CPUs, memory in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from mrtuner.described import Doc
from mrtuner.facts import Missing
from mrtuner_pods.planning.inputs import Question
from mrtuner_pods.planning.storm import PodsStorm
from mrtuner_pods.waiting.erlang import PodsScreen
from mrtuner_pods.waiting.queues import Layout
from mrtuner_pods.waiting.routing import Routing
from mrtuner_pods.waiting.stages import RequestStage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mrtuner_pods.observed.model import Observed
    from mrtuner_pods.observed.used import PodsFigure
    from mrtuner_pods.planning.intervals import PodsInterval
    from mrtuner_pods.planning.running_now import Present


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsWaiting:
    """Waiting at all stages together."""

    mean: Annotated[float, Doc("mean")]
    p50: Annotated[float, Doc("median")]
    p95: Annotated[float, Doc("95 % wait no longer")]
    p99: Annotated[float, Doc("99 % wait no longer")]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLoad:
    """One stage under the planned load."""

    stage: RequestStage
    capacity: float | None  # most requests per second; None: no bound known
    busy: float | None  # the load's share of that
    p95: float  # of waiting there


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsCpu:
    """CPU of a pod."""

    mean: Annotated[float, Doc("used on average")]
    request: Annotated[
        float, Doc("p95 of the CPU use in each second, at least the mean, rounded up")
    ]
    limit: Annotated[float | None, Doc("null: none")]
    because: Annotated[str, Doc("why this limit, or none")]
    throttled: Annotated[float | None, Doc("share of the 100 ms periods in which it stops a pod")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The fewest pods of one size that meet the target."""

    layout: Annotated[Layout, Doc("what to run")]
    p95: Annotated[float, Doc("p95 wait")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of the curve: equally many workers in other pods, or under another routing."""

    routing: Routing
    layout: Layout
    p95: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """What runs now, or is left when a pod is gone."""

    layout: Layout
    p95: float | None  # None: unstable
    needs: int | None  # the fewest of `part`, where it is unstable
    part: str = "workers"  # what it has too few of
    without_limits: float | None = None  # p95 without its CPU limit and its pool, if it has any
    killed: str | None = None  # why the kernel kills its pods; it then has no wait
    unknown: str | None = None  # why p95 is only that of the stages that are known


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsConnections:
    """Connections to the database or its pooler."""

    pool: Annotated[int, Doc("of each worker")]
    expected: Annotated[float, Doc("in use on average")]
    reached: Annotated[int, Doc("with every pool full")]
    rollout: Annotated[int, Doc("the same while all old and all new pods run")]
    server_connections: Annotated[
        int | None, Doc("that a transaction pooler needs; null: time in the database unknown")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run for a load."""

    question: Question
    layout: Layout
    waiting: PodsWaiting
    stages: tuple[StageLoad, ...]
    binding: RequestStage
    screen: PodsScreen
    cpu: PodsCpu
    memory: int | None  # of a pod
    connections: PodsConnections
    alternatives: tuple[Alternative, ...]
    curve: tuple[Point, ...]
    now: Now | None
    one_less: Now  # the plan with one of its pods gone
    storm: PodsStorm | None
    advice: tuple[str, ...]
    notes: tuple[str, ...]
    observed: Observed | None = None
    figures: tuple[PodsFigure, ...] = ()  # of what was observed, and whether it is used
    present: Present | None = None
    warnings: tuple[str, ...] = ()
    intervals: tuple[PodsInterval, ...] = ()
    unknown: tuple[Missing, ...] = ()  # for what was not given

    @property
    def met(self) -> bool:
        """Whether the target is met; it may be missed if the number of pods is given."""
        return self.waiting.p95 <= self.question.target

    @property
    def busy(self) -> float:
        """Share of the time for which a worker's thread serves a request, at least."""
        return self.question.busy / self.layout.slots

    def to_dict(self) -> dict[str, Any]:
        from mrtuner.documents import as_builtins
        from mrtuner_pods.planning.document import plan_document

        return as_builtins(plan_document(self))

    def render(self, format: str) -> str:
        from mrtuner_pods.formats import render
        from mrtuner_pods.planning.application import application

        return render(format, application(self))


def p95_of(curve: Sequence[Point], routing: Routing, workers: int) -> float | None:
    """Return the p95 wait at a point of the curve [s]; None if there is no such point."""
    return next(
        (
            point.p95
            for point in curve
            if point.routing is routing and point.layout.workers == workers
        ),
        None,
    )
