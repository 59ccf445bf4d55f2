"""CPU requests and limits of a pod."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Final

from mrtuner_pods.planning.capacity import overloaded
from mrtuner_pods.planning.fewest_pods import first_that_keeps
from mrtuner_pods.planning.inputs import Question
from mrtuner_pods.planning.model import PodsCpu
from mrtuner_pods.planning.runs import Runs
from mrtuner_pods.waiting.queues import Layout, quantile, settled
from mrtuner_pods.waiting.stages import Simulated, Site
from mrtuner_pods.wording import milliseconds

#: CPU requests are rounded up to multiples of the first, limits to those of the second [CPUs].
_FINE, _STEP = 0.05, 0.25
#: A limit is set only if its stalls add no more than this share of the target to the p95 wait.
_WORTH: Final = 0.1
#: Of the CPU use in fewer seconds of pods, the p95 is merely the highest.
ENOUGH_SECONDS: Final = 20


def cpu(question: Question, runs: Runs, site: Site, simulated: Simulated) -> PodsCpu:
    """Return the CPU request and limit of a pod; `simulated` was run without a limit."""
    layout = site.layout
    mean = _mean(question, layout)
    request = request_of(question, layout, simulated)
    most = most_cpus(question, layout)
    waited = quantile(settled(runs.whole(site).total), 0.95)
    allowed = min(question.target, waited + _WORTH * question.target)
    tried: dict[int, tuple[float, float]] = {}

    def keeps(steps: int) -> bool:
        limited = replace(site, quota=steps * _STEP)
        if overloaded(limited, question) is not None:
            return False
        found = runs.whole(limited)
        tried[steps] = quantile(settled(found.total), 0.95), found.throttled
        return tried[steps][0] <= allowed

    last = ceil(most / _STEP) - 1  # with more, nothing would be limited
    steps = first_that_keeps(keeps, ceil(request / _STEP), last) if request < most else None
    if steps is not None and steps <= last:
        return _limited(mean, request, steps, tried[steps], waited)
    return PodsCpu(
        mean=mean,
        request=request,
        limit=None,
        because=_none(most, tried.get(last), question.target, last),
        throttled=None,
    )


def request_of(question: Question, layout: Layout, simulated: Simulated) -> float:
    """Return the CPU request of a pod: p95 of its use in each second, rounded up [CPUs].

    It is at least the mean: a simulation of a very high rate has hardly a whole second.
    """
    needs = max(_p95_of_seconds(simulated), _mean(question, layout))
    return max(_FINE, round(ceil(round(needs / _FINE, 6)) * _FINE, 6))


def _mean(question: Question, layout: Layout) -> float:
    return question.busy * question.work.cpu / layout.pods


def most_cpus(question: Question, layout: Layout) -> float:
    """Return the most CPUs that a pod can use: one per worker under a lock, else per thread."""
    if question.server.facts.lock:
        return layout.workers
    return layout.workers * layout.threads


def _limited(
    mean: float, request: float, steps: int, seen: tuple[float, float], waited: float
) -> PodsCpu:
    p95, throttled = seen
    return PodsCpu(
        mean=mean,
        request=request,
        limit=steps * _STEP,
        because=f"the lowest limit whose stalls add little: the p95 wait is {milliseconds(p95)} "
        f"with it and {milliseconds(waited)} without; a pod is stopped in {throttled:.1%} of the "
        "periods".replace("%", " %"),
        throttled=throttled,
    )


def _none(most: float, seen: tuple[float, float] | None, target: float, last: int) -> str:
    """Why there is no limit."""
    reach = f"its workers can use at most {most:g} CPUs, with or without a limit"
    if seen is None:
        return f"{reach}, and they need nearly all of that"
    p95, throttled = seen
    return (
        f"{reach}; even with {last * _STEP:g} CPUs, a pod is stopped in {100 * throttled:.1f} % "
        f"of the periods and the p95 wait is {milliseconds(p95)} (target {milliseconds(target)})"
    )


def _p95_of_seconds(simulated: Simulated) -> float:
    """p95 of CPU use over all seconds of all pods, including those in which a pod used none."""
    used = sorted(simulated.cpu_seconds)
    idle = simulated.seconds - len(used)
    place = int(0.95 * simulated.seconds) - idle
    return used[min(place, len(used) - 1)] if used and place >= 0 else 0.0
