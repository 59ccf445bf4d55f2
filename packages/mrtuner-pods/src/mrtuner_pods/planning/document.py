"""A plan as JSON: ``mrtuner.pods.plan/1``. Times in seconds, CPU in CPUs, sizes in bytes."""

from __future__ import annotations

from math import isfinite
from typing import Annotated

from mrtuner.documents import Doc, Document, NotJudged, Struct, convert, field
from mrtuner_pods.observed.model import OpenSessions, PodsMeasuredWaiting, PoolerPool
from mrtuner_pods.observed.used import PodsFigure
from mrtuner_pods.planning.intervals import PodsInterval
from mrtuner_pods.planning.model import (
    Plan,
    PodsConnections,
    PodsCpu,
    PodsWaiting,
)
from mrtuner_pods.planning.running_now import Present
from mrtuner_pods.planning.servers import Server
from mrtuner_pods.planning.storm import PodsStorm
from mrtuner_pods.waiting.erlang import PodsScreen
from mrtuner_pods.waiting.routing import Routing


class PodsLayout(Struct):
    """Pods of workers of threads."""

    pods: Annotated[int, Doc("how many")]
    workers: Annotated[int, Doc("processes in a pod")]
    threads: Annotated[int, Doc("of a worker")]
    slots: Annotated[int, Doc("requests that can be served at once, in all pods")]


class PodsLoad(Struct):
    """What was asked."""

    rate: Annotated[float, Doc("requests a second")]
    service_time: Annotated[float, Doc("mean time of a request that does not wait")]
    variation: Annotated[float, Doc("standard deviation of the service time divided by its mean")]
    samples: Annotated[int, Doc("measured service times; 0: drawn from a distribution")]
    bursts: Annotated[
        float, Doc("standard deviation of the time between requests divided by its mean")
    ]
    cpu_time: Annotated[float, Doc("of the service time, on the application's CPU")]
    database_time: Annotated[float, Doc("of the service time, in the database")]
    target: Annotated[float, Doc("p95 wait allowed")]
    routing: Annotated[Routing, Doc("how requests are spread over pods")]
    server: Annotated[Server, Doc("the application server")]
    busy: Annotated[float, Doc("workers that the load keeps busy on average")]
    seed: Annotated[int, Doc("of the simulation")]


class PodsStage(Struct):
    """One stage under this load."""

    stage: Annotated[str, Doc("workers, global lock, CPU, pool, pooler or database")]
    capacity: Annotated[float | None, Doc("most requests per second that it can handle, if known")]
    busy: Annotated[float | None, Doc("the load's share of that")]
    p95: Annotated[float, Doc("p95 wait there")]


class PodsAlternative(Struct):
    """The fewest pods of one size that meet the target."""

    layout: Annotated[PodsLayout, Doc("what to run")]
    p95: Annotated[float, Doc("p95 wait")]


class PodsPoint(Struct):
    """Equally many workers in other pods, under another routing."""

    routing: Annotated[Routing, Doc("how requests are spread")]
    layout: Annotated[PodsLayout, Doc("what runs")]
    p95: Annotated[float | None, Doc("p95 wait; null: it grows without bound")]


class PodsNow(Struct):
    """Pods that were not planned."""

    layout: Annotated[PodsLayout, Doc("what runs")]
    p95: Annotated[float | None, Doc("p95 wait; null: unstable, it grows without bound")]
    needs: Annotated[int | None, Doc("minimum number of `part`; if unstable and known")]
    part: Annotated[str, Doc("what is too small")] = "workers"
    without_limits: Annotated[
        float | None, Doc("p95 if the CPU limit and the pool were removed; null if there are none")
    ] = None
    killed: Annotated[
        str | None, Doc("why the kernel kills its pods for their memory; p95 is then null")
    ] = None
    unknown: Annotated[
        str | None, Doc("why p95 is only that of the stages that are known; null: it is whole")
    ] = None


class PodsNumber(Struct):
    """A number of the manifest."""

    name: Annotated[str, Doc("pods, workers, threads, pool, cpu_request, …")]
    value: Annotated[float | None, Doc("CPUs, bytes or a count; null: an unbounded pool")]
    source: Annotated[str, Doc("file and line, variable, option, or default")]


class PodsPresent(Struct):
    """A workload as its manifest has it."""

    name: Annotated[str, Doc("its name")]
    kind: Annotated[str, Doc("Deployment, StatefulSet")]
    where: Annotated[str, Doc("file and line")]
    container: Annotated[str, Doc("the container that serves")]
    autoscaler: Annotated[str | None, Doc("what sets the number of pods; null: nothing")]
    numbers: Annotated[list[PodsNumber], Doc("what it specifies")]


class PodsPlanDocument(Document, tag="mrtuner.pods.plan/1"):
    """Written by `mrtuner pods plan --json`. Times are in seconds."""

    load: Annotated[PodsLoad, Doc("the request")]
    layout: Annotated[PodsLayout, Doc("what to run")]
    met: Annotated[bool, Doc("whether the target is met")]
    waiting: Annotated[PodsWaiting, Doc("how long requests wait")]
    binding: Annotated[str, Doc("the stage that a growing load saturates first")]
    stages: Annotated[list[PodsStage], Doc("in the order in which a request passes them")]
    screen: Annotated[PodsScreen, Doc("the formula, for comparison with the simulation")]
    cpu: Annotated[PodsCpu, Doc("of a pod")]
    memory: Annotated[int | None, Doc("bytes of a pod: master and workers at their peaks")]
    connections: Annotated[PodsConnections, Doc("of all pods")]
    alternatives: Annotated[list[PodsAlternative], Doc("by workers in a pod")]
    curve: Annotated[list[PodsPoint], Doc("by routing, then by workers in a pod")]
    now: Annotated[PodsNow | None, Doc("what runs now, if given")]
    one_less: Annotated[PodsNow, Doc("the plan with one pod gone")]
    storm: Annotated[PodsStorm | None, Doc("if logins a second are given")]
    advice: Annotated[list[str], Doc("what else to change")]
    notes: Annotated[list[str], Doc("what was assumed")] = field(default_factory=list)
    observed: Annotated[list[PodsFigure], Doc("what monitoring saw")] = field(default_factory=list)
    measured: Annotated[
        PodsMeasuredWaiting | None, Doc("measured waiting before the application now")
    ] = None
    sessions: Annotated[list[OpenSessions], Doc("at the database, by application")] = field(
        default_factory=list
    )
    pools: Annotated[list[PoolerPool], Doc("of PgBouncer")] = field(default_factory=list)
    present: Annotated[PodsPresent | None, Doc("the workload as its manifest has it")] = None
    warnings: Annotated[list[str], Doc("what contradicts the plan or may be a mistake")] = field(
        default_factory=list
    )
    intervals: Annotated[
        list[PodsInterval], Doc("of figures above, by repeated simulation with other seeds")
    ] = field(default_factory=list)
    unknown: Annotated[list[NotJudged], Doc("what is not known, since something was not given")] = (
        field(default_factory=list)
    )


def plan_document(plan: Plan) -> PodsPlanDocument:
    asked, mean, seen = plan.question, plan.question.service.mean, plan.observed
    return PodsPlanDocument(
        load=PodsLoad(
            rate=asked.rate, service_time=mean, variation=asked.service.variation,
            samples=len(asked.service.samples), bursts=asked.bursts,
            cpu_time=mean * asked.work.cpu, database_time=mean * asked.work.database,
            target=asked.target, routing=asked.routing, server=asked.server, busy=asked.busy,
            seed=asked.seed,
        ),
        layout=convert(plan.layout, PodsLayout),
        met=plan.met,
        waiting=plan.waiting,
        binding=plan.binding.words,
        stages=[
            PodsStage(stage=one.stage.words, capacity=one.capacity, busy=one.busy, p95=one.p95)
            for one in plan.stages
        ],
        screen=plan.screen,
        cpu=plan.cpu,
        memory=plan.memory,
        connections=plan.connections,
        alternatives=[convert(one, PodsAlternative) for one in plan.alternatives],
        curve=[
            PodsPoint(
                routing=point.routing,
                layout=convert(point.layout, PodsLayout),
                p95=point.p95 if isfinite(point.p95) else None,
            )
            for point in plan.curve
        ],
        now=None if plan.now is None else convert(plan.now, PodsNow),
        one_less=convert(plan.one_less, PodsNow),
        storm=plan.storm,
        advice=list(plan.advice),
        notes=list(plan.notes),
        observed=list(plan.figures),
        measured=seen.waited if seen else None,
        sessions=list(seen.sessions) if seen else [],
        pools=list(seen.pools) if seen else [],
        present=None if plan.present is None else _present(plan.present),
        warnings=list(plan.warnings),
        intervals=list(plan.intervals),
        unknown=[convert(one, NotJudged) for one in plan.unknown],
    )  # fmt: skip


def _present(found: Present) -> PodsPresent:
    numbers = {
        name: fact for name in _NUMBERS if (fact := getattr(found, name)) is not None
    }  # fmt: skip
    return PodsPresent(
        name=found.name,
        kind=found.kind,
        where=found.where,
        container=found.container,
        autoscaler=found.autoscaler,
        numbers=[
            PodsNumber(name=name, value=fact.value, source=fact.source)
            for name, fact in numbers.items()
        ],
    )


_NUMBERS = (
    "pods", "workers", "threads", "pool", "cpu_request", "cpu_limit", "memory_request",
    "memory_limit",
)  # fmt: skip
