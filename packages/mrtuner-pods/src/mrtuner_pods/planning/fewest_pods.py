"""The fewest pods that meet the target, for each number of workers in a pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil
from typing import Final

from mrtuner.errors import Refused
from mrtuner_pods.planning.capacity import overloaded, refuse_overload
from mrtuner_pods.planning.inputs import Question
from mrtuner_pods.planning.memory import most_workers, refuse_killed
from mrtuner_pods.planning.model import Alternative
from mrtuner_pods.planning.runs import Runs
from mrtuner_pods.waiting.queues import Layout
from mrtuner_pods.wording import milliseconds

#: With a single pod every restart is an outage. Beyond that, the others must be able to carry the
#: load when one is gone: with more waiting, but stable.
LEAST_PODS: Final = 2
_SURVIVABLE: Final = 0.9  # the share of their capacity that it may then take
#: With more threads than this, a worker loses more by waiting for its lock than it gains.
_MOST_THREADS: Final = 5
#: Threads of a pod that is one process.
_JVM_THREADS: Final = (4, 8, 16, 32)
#: Slots for each busy one: a target that these miss is missed by any number.
_PLENTY: Final = 8


def best(found: list[Alternative]) -> Alternative:
    """Return the one with the fewest slots in all; among equals, the one that waits least."""
    return min(found, key=lambda one: (one.layout.slots, one.p95, one.layout.workers))


def alternatives(question: Question, runs: Runs) -> list[Alternative]:
    """Return the fewest pods for each size of pod; Refused if no number meets the target."""
    refuse_overload(runs.site(_plenty(question)), question)
    return [_fewest_pods(question, runs, *size) for size in sizes(question)]


def sizes(question: Question) -> Iterator[tuple[int, int]]:
    """Yield the sizes to try: workers in a pod, and threads in a worker."""
    if question.server.facts.one_process:
        refuse_killed(question, 1)
        yield from ((1, threads) for threads in _given(question.threads, _JVM_THREADS))
        return
    fit = most_workers(question)
    most = question.most_workers if fit is None else min(question.most_workers, fit)
    if question.workers is not None or most == 0:
        refuse_killed(question, question.workers or 1)
    powers = [2**power for power in range(9) if 2**power < most]
    for workers in _given(question.workers, (*powers, most)):
        yield workers, question.threads or usual_threads(question)


def usual_threads(question: Question) -> int:
    """Return the threads that keep a worker's lock in use nearly all the time, at most five.

    A request that computes for a third of its time leaves the lock to two others.
    """
    if not question.server.facts.threads:
        return 1
    return max(1, min(_MOST_THREADS, round(1 / max(question.work.cpu, 0.01))))


def _given(fixed: int | None, usual: tuple[int, ...]) -> tuple[int, ...]:
    return usual if fixed is None else (fixed,)


def _fewest_pods(question: Question, runs: Runs, workers: int, threads: int) -> Alternative:
    """Find the fewest pods by simulation: try more in growing steps, then bisect."""

    def layout(pods: int) -> Layout:
        return question.server.facts.layout(pods, workers, threads)

    if question.pods is not None:
        refuse_overload(runs.site(layout(question.pods)), question)
        return Alternative(
            layout=layout(question.pods), p95=runs.p95(runs.site(layout(question.pods)))
        )
    waited: dict[int, float] = {}

    def keeps(pods: int) -> bool:
        site, one_less = (runs.site(layout(number)) for number in (pods, pods - 1))
        if overloaded(site, question) or overloaded(one_less, question, most=_SURVIVABLE):
            return False
        waited[pods] = runs.p95(site)
        return waited[pods] <= question.target

    least = max(LEAST_PODS, ceil(question.busy / (workers * threads)))
    most = max(2 * LEAST_PODS, ceil(_PLENTY * question.busy)) * 2
    pods = first_that_keeps(keeps, least, most)
    if pods is None:
        raise _missed(question, runs)
    return Alternative(layout=layout(pods), p95=waited[pods])


def first_that_keeps(keeps: Callable[[int], bool], least: int, most: int) -> int | None:
    """Return the first number from `least` for which `keeps` is true; None if none to `most` is.

    Once true, `keeps` must be true for all larger numbers.
    """
    fails, step, tried = least - 1, 1, least
    while not keeps(tried):
        if tried >= most:
            return None
        fails, step = tried, step * 2
        tried = min(most, tried + step)
    while tried - fails > 1:
        middle = (tried + fails) // 2
        if keeps(middle):
            tried = middle
        else:
            fails = middle
    return tried


def _plenty(question: Question) -> Layout:
    slots = max(64, ceil(_PLENTY * question.busy))
    return question.server.facts.layout(slots, 1, 1)


def _missed(question: Question, runs: Runs) -> Refused:
    """Return the error for a target that more pods cannot meet."""
    left = runs.p95(runs.site(_plenty(question)))
    return Refused(
        f"no number of pods keeps the p95 wait within {milliseconds(question.target)}: with "
        f"plenty of workers it is still {milliseconds(left)}",
        "Allow more, or give the database or the pooler more; another routing may also be enough.",
    )
