"""The plan: searched, simulated as a whole, and explained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite
from typing import Final, Unpack, cast

from mrtuner.errors import Refused
from mrtuner.facts import Missing
from mrtuner.wording import plural
from mrtuner_pods.observed.model import Observed
from mrtuner_pods.observed.used import taken
from mrtuner_pods.planning.capacity import capacities, overloaded, part_of
from mrtuner_pods.planning.cpu_limits import ENOUGH_SECONDS, cpu, most_cpus
from mrtuner_pods.planning.curve import curve, routing_or_density
from mrtuner_pods.planning.fewest_pods import alternatives, best
from mrtuner_pods.planning.inputs import PlanInputs, Question, asked
from mrtuner_pods.planning.intervals import PodsInterval, Repeated
from mrtuner_pods.planning.memory import killed, memory, most_workers
from mrtuner_pods.planning.model import Now, Plan, PodsConnections, Point, StageLoad, p95_of
from mrtuner_pods.planning.running_now import Present
from mrtuner_pods.planning.runs import Runs, grows
from mrtuner_pods.planning.servers import Server
from mrtuner_pods.planning.storm import PodsStorm, storm
from mrtuner_pods.waiting.erlang import PodsScreen, screen, wait_beyond
from mrtuner_pods.waiting.queues import Accepting, Layout, quantile, settled
from mrtuner_pods.waiting.stages import RequestStage, Simulated, Site
from mrtuner_pods.wording import milliseconds

#: The last simulation has this many times the requests of those in the search.
_LONGER: Final = 4
#: Most pods that the longer simulation may add.
_MORE_PODS: Final = 8
#: The p95 wait for a pooler's connection may be at most this share of the target.
_POOLER_SHARE: Final = 0.05


def plan(
    samples: Sequence[float] = (), *, observed: Observed | None = None,
    present: Present | None = None, **given: Unpack[PlanInputs],
) -> Plan:  # fmt: skip
    """Return pods, workers, threads, connections, CPU and memory for a load, with their reasons.

    Times are seconds or texts such as ``"27ms"``, rates a second or texts such as ``"400/s"``,
    sizes bytes or texts such as ``"180MB"``; `samples` are measured service times [s] instead of
    `service_time` and `variation`. `observed` is what monitoring saw, for what is not given.
    `present` is the workload as its manifest has it. The same call gives the same plan.

    Raises BadValue for invalid inputs, and Refused if a stage would be unstable or no number of
    pods meets the target.
    """
    inputs = ({} if present is None else present.inputs) | {
        name: value for name, value in given.items() if value is not None
    }
    known = taken(observed or Observed(), tuple(samples), inputs)
    question = asked(known.samples, **cast("PlanInputs", known.given))
    if present is not None:
        question = replace(question, **present.limits)
    made = planned(question)
    notes = [] if present is None or given.get("now") else list(_at_its_most(present))
    comparable = None if notes else observed  # what was measured is of the pods that ran
    return replace(
        made, observed=observed, figures=known.figures, present=present,
        notes=(*made.notes, *notes),
        warnings=(*known.warnings, *_warnings(made, comparable, present)),
    )  # fmt: skip


def planned(question: Question) -> Plan:
    runs = Runs(question)
    found = alternatives(question, runs)
    layout, simulated = _verified(question, runs, best(found).layout)
    _refuse_growth(simulated, question)
    site = runs.site(layout)
    waiting = runs.waiting(simulated)
    now = None if question.now is None else _now(question, runs, question.now)
    stages = _stages(question, site, simulated)
    compared = layout if now is None or now.p95 is None else now.layout
    points = curve(question, runs, compared)
    fewer = runs.site(replace(layout, pods=layout.pods - 1))
    one_less = _as_it_is(question, runs, fewer)
    made = Plan(
        question=question,
        layout=layout,
        waiting=waiting,
        stages=stages,
        binding=max(stages, key=lambda stage: stage.busy or 0.0).stage,
        screen=_screen(question, layout),
        cpu=cpu(question, runs, site, simulated),
        memory=memory(question, layout.workers),
        connections=_connections(question, layout),
        alternatives=tuple(found),
        curve=points,
        now=now,
        one_less=one_less,
        storm=_storm(question, site),
        advice=(),
        notes=(*_notes(question), *_too_short(simulated)),
        unknown=tuple(_unknown(question)),
    )
    repeated = Repeated(question)
    intervals: tuple[PodsInterval, ...] = (
        *repeated.whole(site, simulated, longer=_LONGER),
        *repeated.alternatives(found),
        *repeated.as_it_is("one_less.p95", one_less, fewer),
    )
    if now is not None:
        current = _limited(question, runs.site(now.layout))
        intervals += tuple(repeated.as_it_is("now.p95", now, current))
    return replace(made, advice=tuple(_advice(made, points, compared)), intervals=intervals)


def _verified(question: Question, runs: Runs, layout: Layout) -> tuple[Layout, Simulated]:
    """Return the layout and a longer simulation of it, with more pods if it misses the target."""
    simulated = runs.whole(runs.site(layout), longer=_LONGER)
    for _ in range(_MORE_PODS):
        missed = quantile(settled(simulated.total), 0.95) > question.target
        if question.pods is not None or not missed:
            break
        layout = replace(layout, pods=layout.pods + 1)
        simulated = runs.whole(runs.site(layout), longer=_LONGER)
    return layout, simulated


def _refuse_growth(simulated: Simulated, question: Question) -> None:
    """Raise Refused if waits keep growing although no single stage is overloaded."""
    if grows(settled(simulated.total), question.service.mean):
        raise Refused(
            f"unstable: threads that wait for each other leave too little capacity for "
            f"{question.rate:g}/s",
            "Leave out --pods to have them planned, or give fewer threads and more workers.",
        )


def _now(question: Question, runs: Runs, layout: Layout) -> Now:
    """Return how long requests wait now, or why that is not known or makes no sense."""
    limit = question.pod_memory if question.now_memory is None else question.now_memory
    why = killed(question, layout.workers, limit)
    if why is not None:
        return Now(layout=layout, p95=None, needs=None, killed=why)
    found = _as_it_runs(question, runs, layout)
    if question.cpu_given or found.p95 is None:
        return found
    return replace(found, unknown="without --cpu-time, nothing is known of waiting for CPU")


def _as_it_runs(question: Question, runs: Runs, layout: Layout) -> Now:
    """Return how long requests wait now, with the current CPU limit and pool."""
    free = runs.site(layout)
    found = _as_it_is(question, runs, free)
    limited = _limited(question, free)
    if limited == free or found.p95 is None:
        return found
    return replace(_as_it_is(question, runs, limited), without_limits=found.p95)


def _limited(question: Question, site: Site) -> Site:
    """The site with its current CPU limit and pool; no CPU limit where the CPU time is a guess."""
    layout = site.layout
    limit = question.now_limit if question.cpu_given else None
    pool = question.now_pool if question.work.database else None
    return replace(
        site,
        quota=limit if limit is not None and limit < most_cpus(question, layout) else None,
        pool=pool if pool is not None and pool < layout.threads else None,
    )


def _as_it_is(question: Question, runs: Runs, site: Site) -> Now:
    """Return the p95 wait at a given site, or what it lacks if it is unstable."""
    layout = site.layout
    if layout.pods == 0:
        return Now(layout=layout, p95=None, needs=int(question.busy) + 1)
    too_much = overloaded(site, question)
    if too_much is not None:
        stage, needs = too_much
        return Now(layout=layout, p95=None, needs=needs, part=part_of(stage))
    p95 = runs.p95(site)
    return Now(layout=layout, p95=p95 if isfinite(p95) else None, needs=None)


def _stages(question: Question, site: Site, simulated: Simulated) -> tuple[StageLoad, ...]:
    """Return the stages that a request passes, whether it waits there or not."""
    most = capacities(site, question)
    passed = [stage for stage in RequestStage if stage in most or any(simulated.stages[stage])]
    return tuple(
        StageLoad(
            stage=stage,
            capacity=most.get(stage),
            busy=question.rate / most[stage] if stage in most else None,
            p95=quantile(settled(simulated.stages[stage]), 0.95),
        )
        for stage in passed
    )


def _screen(question: Question, layout: Layout) -> PodsScreen:
    servers = layout.workers * layout.threads
    # If the least busy worker accepts, a pod is almost like one queue.
    queues = layout.queues if layout.accepting is Accepting.ANY else 1
    found = screen(
        rate=question.rate,
        service=question.service.mean,
        variation=question.service.variation,
        pods=layout.pods * queues,
        servers=servers // queues,
        routing=question.routing,
        arrival_variation=question.bursts,
    )
    others = _beyond_the_formula(question, layout)
    return replace(found, doubts=(*found.doubts, *others))


def _beyond_the_formula(question: Question, layout: Layout) -> Iterator[str]:
    if question.server.facts.lock and layout.threads > 1:
        yield "threads also wait for the lock of their worker"
    if layout.queues > 1 and layout.accepting is Accepting.LEAST_BUSY:
        yield "a request may wait for its worker while another one of the pod has a free thread"
    if question.pooler or question.database_cpus:
        yield "it knows nothing of what is behind the workers"


def _connections(question: Question, layout: Layout) -> PodsConnections:
    """Plan a connection for each thread: a smaller pool would be one more queue.

    While a Deployment rolls out, all old pods and all new ones may run at once.
    """
    held = (1 - question.work.cpu / question.work.pieces) if question.work.database else 1.0
    reached = layout.slots
    return PodsConnections(
        pool=layout.threads,
        expected=question.busy * held,
        reached=reached,
        rollout=2 * reached,
        server_connections=_server_connections(question, reached),
    )


def _server_connections(question: Question, reached: int) -> int | None:
    """The fewest for which 95 % of requests hardly wait, by the formula."""
    if question.work.database == 0:
        return None
    load = question.busy * question.work.database
    mean = question.service.mean * question.work.database
    stretch = (question.bursts**2 + question.service.variation**2) / 2
    count = int(load) + 1
    while wait_beyond(0.05, count, load, mean, stretch) > _POOLER_SHARE * question.target:
        count += 1
    return min(count, reached)


def _storm(question: Question, site: Site) -> PodsStorm | None:
    """With a transaction pooler in between, only its server connections are reopened."""
    if question.logins is None:
        return None
    return storm(
        connections=question.pooler or site.layout.slots,
        logins=question.logins,
        rate=question.rate,
        capacity=min(capacities(site, question).values()),
    )


def _advice(made: Plan, points: Sequence[Point], base: Layout) -> Iterator[str]:
    question = made.question
    yield from _accepting(made)
    yield from _held_back(made)
    yield from routing_or_density(question, points, _sparse(points, base, question), _most(made))
    if made.one_less.p95 is None:
        yield (
            f"With one pod gone, {plural(made.layout.pods - 1, 'pod')} cannot carry the load: run "
            "one more, or smaller pods (--most-workers)."
        )
    limit = question.max_connections
    if limit is not None and made.connections.rollout > limit and question.pooler is None:
        pooled = made.connections.server_connections
        size = f" with {pooled} server connections" if pooled else ""
        yield (
            f"Put a transaction pooler{size} before the database: a rollout can reach "
            f"{made.connections.rollout} connections, and there are {limit}."
        )
    if made.storm is not None and made.storm.caught_up > _LONG_STORM:
        yield (
            f"Reconnecting after a failover takes {made.storm.caught_up:.0f} s until the "
            "queue is gone: a transaction pooler opens fewer connections, and more pods have "
            "more to spare."
        )


def _accepting(made: Plan) -> Iterator[str]:
    """Yield what is gained if only workers with a free thread accept, as the formats set it."""
    now = made.now
    if now is None:
        return
    if now.layout.accepting is Accepting.ANY:
        yield _accept_with_a_free_thread(made, now)
    elif now.layout.delays:
        yield (
            "Set wait_for_less_busy_worker to 0, as --format puma writes: from Puma 6 on, workers "
            f"accept requests up to {milliseconds(now.layout.accept_delay)} late. With that "
            f"default, the current pods {_waits(now)}."
        )


def _waits(now: Now) -> str:
    return "cannot carry the load" if now.p95 is None else f"wait {milliseconds(now.p95)} at p95"


def _accept_with_a_free_thread(made: Plan, now: Now) -> str:
    configured = p95_of(made.curve, made.question.routing, now.layout.workers)
    gained = (
        "" if now.p95 is None or configured is None else f", with it {milliseconds(configured)}"
    )
    return (
        "Let workers accept only while a thread is free: worker_connections = threads and "
        "keepalive = 0, as --format gunicorn writes. By default, requests queue beside idle "
        f"workers: the current ones {_waits(now)}, if the load is even{gained}."
    )


def _held_back(made: Plan) -> Iterator[str]:
    """Yield how much the current CPU limit and pool slow requests down."""
    question, now = made.question, made.now
    if now is None or now.without_limits is None:
        return
    if now.p95 is not None and now.p95 - now.without_limits <= _COSTS * question.target:
        return
    site = _limited(question, Site(layout=now.layout))
    causes = [f"its CPU limit of {site.quota * 1000:.0f}m"] if site.quota is not None else []
    if site.pool is not None:
        causes.append(f"its pool of {site.pool} for {now.layout.threads} threads")
    waits = (
        "it cannot carry the load"
        if now.p95 is None
        else f"the p95 wait is {milliseconds(now.p95)}"
    )
    yield (
        f"The current deployment is slowed down by {' and '.join(causes)}: {waits} with "
        f"{'it' if len(causes) == 1 else 'them'}, and {milliseconds(now.without_limits)} without."
    )


#: A limit or pool is reported if it adds more than this share of the target to the p95 wait.
_COSTS: Final = 0.1
#: Seconds after which a reconnect storm is longer than the failover itself.
_LONG_STORM: Final = 60.0


def _sparse(points: Sequence[Point], base: Layout, question: Question) -> Layout:
    """What runs now; else the smallest pods of more than one worker, the usual starting point."""
    if question.now is not None:
        return base
    return min(
        (point.layout for point in points if point.layout.workers > 1),
        key=lambda layout: layout.workers,
        default=base,
    )


def _most(made: Plan) -> int:
    fit = most_workers(made.question)
    wanted = max(made.question.most_workers, made.layout.workers)
    return wanted if fit is None else min(wanted, fit)


def _warnings(made: Plan, observed: Observed | None, present: Present | None) -> Iterator[str]:
    """Yield what was measured or is in a manifest, and contradicts the plan."""
    now, measured = made.now, observed.waited if observed else None
    yield from _missed_by_chance(made)
    if now is not None and now.killed is not None:
        yield f"the kernel kills the current pods for their memory (OOM): {now.killed}"
    if now is not None and measured is not None and measured.p95 is not None:
        simulated = now.p95
        if simulated is not None and measured.p95 > _FAR * simulated + _FAR_SECONDS:
            yield (
                f"requests wait {milliseconds(measured.p95)} at p95 now, measured, and the "
                f"simulation of the current deployment gives {milliseconds(simulated)}: look for "
                "bursts, a quota above, or an uneven load balancer before you trust this plan"
            )
    if present is None:
        return
    yield from present.warnings
    if present.in_command:
        yield (
            "the command sets the number of workers or threads, which takes precedence over "
            "variables: change it there too"
        )
    added = present.added_limit
    if made.cpu.limit is None and added is not None:
        yield (
            f"a container without a CPU limit gets one of {added.value * 1000:.0f}m "
            f"({added.source}): use a LimitRange without that default"
        )


def _missed_by_chance(made: Plan) -> Iterator[str]:
    """Yield that the target is met, but not in every simulation."""
    target = made.question.target
    wait = next(one for one in made.intervals if one.figure == "waiting.p95")
    if made.met and (wait.high is None or wait.high > target):
        high = "without bound" if wait.high is None else milliseconds(wait.high)
        yield (
            f"not all of {wait.simulations} simulations keep the target: 95 % wait up to {high}; "
            "run one pod more"
        )


#: Measured waits contradict simulated ones above this many times these plus this many seconds.
_FAR, _FAR_SECONDS = 2.0, 0.005


def _unknown(question: Question) -> Iterator[Missing]:
    """Yield the parts of the plan for which something was not given."""
    if not question.cpu_given:
        yield Missing(
            "CPU", "no CPU time was given; the figures are those if all time outside the database "
            "is CPU", option="--cpu-time",
        )  # fmt: skip
    if question.worker_memory is None:
        yield Missing("memory", "no memory of processes was given",
                      option="--master-memory and --worker-memory")  # fmt: skip
    elif question.master_memory is None:
        yield Missing("memory", "no memory of the master was given", option="--master-memory")
    if question.work.database == 0:
        yield Missing("pooler", "no time in the database was given", option="--database-time")
    if question.logins is None:
        yield Missing("failover", "no logins a second were given", option="--logins")


def _notes(question: Question) -> Iterator[str]:
    if question.server is Server.PUMA:
        yield (
            "Puma 7 or 8 is assumed: their workers accept requests even if no thread is free, the "
            "least busy worker first. Plan for Puma 5 or 6 with --server puma-6."
        )
    if question.now is not None and question.now.accepting is Accepting.ANY:
        yield (
            "The current deployment is assumed to share requests evenly among the workers of a "
            "pod. By default, the workers race to accept, and one may win more often: the busier "
            "the pod, the longer requests then wait."
        )
    if question.now_limit is not None and not question.cpu_given:
        yield (
            f"The current CPU limit, {question.now_limit * 1000:.0f}m, is not simulated: "
            "without a CPU time it is unknown when it stops a pod."
        )
    if not question.cpu_given:
        yield (
            "No CPU time was given, so all time outside the database counts as CPU: the CPU "
            "request may be too high, and threads seem useless. Give --cpu-time."
        )
    if not question.service.samples and question.service.variation == 1.0:
        yield (
            "Service times are assumed to be exponentially distributed (variation 1). Measured "
            "ones (--samples) settle it."
        )
    if question.bursts == 1.0:
        yield "Requests are assumed to arrive independently of each other; bursts wait longer."


def _at_its_most(present: Present) -> Iterator[str]:
    if present.autoscaler is not None:
        yield (
            "The current deployment is simulated with the most pods that its autoscaler allows, "
            f"{present.pods.value:,}. Requests wait longer for fewer: give --now as it runs."
        )


def _too_short(simulated: Simulated) -> Iterator[str]:
    if simulated.seconds < ENOUGH_SECONDS:
        yield (
            "At this rate, the simulation has too few seconds for a p95 of the CPU use in each: "
            "the CPU request is about the mean, and may be too low."
        )
