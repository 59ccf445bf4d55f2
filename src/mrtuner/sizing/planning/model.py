"""A plan: what to run, its waits, and why. Times in seconds, CPU in CPUs, memory in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mrtuner.sizing.planning.inputs import Question
from mrtuner.sizing.planning.storm import Storm
from mrtuner.sizing.waiting.erlang import Screen
from mrtuner.sizing.waiting.queues import Layout
from mrtuner.sizing.waiting.routing import Routing
from mrtuner.sizing.waiting.stages import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mrtuner.sizing.observed.model import Observed
    from mrtuner.sizing.observed.used import Figure
    from mrtuner.sizing.planning.present import Present


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How long requests wait, at all stages together."""

    mean: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLoad:
    """One stage under the planned load."""

    stage: Stage
    capacity: float | None  # most requests per second; None: no bound known
    busy: float | None  # the load's share of that
    p95: float  # of waiting there


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """The CPU that a pod uses, and the request and limit to set. In CPUs."""

    mean: float
    request: float  # p95 of use over seconds
    limit: float | None
    because: str  # why this limit, or none
    throttled: float | None  # share of the periods, with the limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The fewest pods of one size that meet the target, or as many as are given."""

    layout: Layout
    p95: float


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """Connections to the database, or to the pooler."""

    pool: int  # of a worker
    expected: float  # in use on average
    reached: int  # all pools full
    rollout: int  # the same while old and new pods run
    server_connections: int | None  # that a transaction pooler needs; None: time there unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run for a load."""

    question: Question
    layout: Layout
    waiting: Waiting
    stages: tuple[StageLoad, ...]
    binding: Stage
    screen: Screen
    cpu: Cpu
    memory: int | None  # of a pod
    connections: Connections
    alternatives: tuple[Alternative, ...]
    curve: tuple[Point, ...]
    now: Now | None
    one_less: Now  # the plan with one of its pods gone
    storm: Storm | None
    advice: tuple[str, ...]
    notes: tuple[str, ...]
    observed: Observed | None = None
    figures: tuple[Figure, ...] = ()  # of what was observed, and whether it is used
    present: Present | None = None
    warnings: tuple[str, ...] = ()

    @property
    def met(self) -> bool:
        """Whether the target is met; it may be missed if the number of pods is given."""
        return self.waiting.p95 <= self.question.target

    @property
    def busy(self) -> float:
        """Share of the time for which a worker's thread serves a request, at least."""
        return self.question.busy / self.layout.slots

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as the JSON document mrtuner.pods.plan/1."""
        from mrtuner.documents import as_builtins
        from mrtuner.sizing.planning.document import plan_document

        return as_builtins(plan_document(self))

    def render(self, format: str) -> str:
        """Return the plan in a format of `mrtuner.formats.application.FORMATS`."""
        from mrtuner.sizing.planning.rendering import rendered

        return rendered(self, format)


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
