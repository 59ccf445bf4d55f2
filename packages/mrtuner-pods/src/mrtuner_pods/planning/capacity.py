"""How many requests per second each stage can handle, and whether that is enough.

These are upper bounds: threads that wait for their lock keep their worker busy for longer.
"""

from __future__ import annotations

from math import floor
from typing import Final

from mrtuner.errors import Refused
from mrtuner_pods.planning.inputs import Question
from mrtuner_pods.waiting.stages import RequestStage, Site, Work
from mrtuner_pods.wording import milliseconds

#: What a stage is made of, and what to do where there is too little of it.
_PARTS: Final = {
    RequestStage.WORKER: ("workers", "Leave out --pods and --workers to have them planned."),
    RequestStage.LOCK: ("workers computing", "Give more workers, not more threads."),
    RequestStage.CPU: ("CPUs", "Raise the limit."),
    RequestStage.POOL: ("connections", "Give each thread a connection."),
    RequestStage.POOLER: (
        "connections of the pooler",
        "Raise --pooler to that number, if the database allows it.",
    ),
    RequestStage.DATABASE: (
        "CPUs of the database",
        "Give it more, or make the statements cheaper.",
    ),
}


def places(site: Site, work: Work) -> dict[RequestStage, tuple[float, float]]:
    """Return, for each stage that can delay requests, its places and a request's share of one.

    The share is that part of the service time for which a request takes a place.
    """
    layout = site.layout
    processes = layout.pods * layout.workers
    found = {RequestStage.WORKER: (float(layout.slots), 1.0)}
    if site.lock and layout.threads > 1 and work.cpu:
        found[RequestStage.LOCK] = (processes, work.cpu)
    if site.quota is not None and work.cpu:
        found[RequestStage.CPU] = (layout.pods * site.quota, work.cpu)
    if site.pool is not None and site.pool < layout.threads and work.database:
        found[RequestStage.POOL] = (processes * site.pool, 1 - work.cpu / work.pieces)
    if site.pooler is not None and work.database:
        found[RequestStage.POOLER] = (site.pooler, work.database)
    if site.database is not None and work.database:
        found[RequestStage.DATABASE] = (site.database, work.database)
    return found


def capacities(site: Site, question: Question) -> dict[RequestStage, float]:
    """Return the most requests per second that each stage can handle."""
    mean = question.service.mean
    return {
        stage: count / (share * mean)
        for stage, (count, share) in places(site, question.work).items()
    }


def overloaded(
    site: Site, question: Question, *, most: float = 1.0
) -> tuple[RequestStage, int] | None:
    """Return the first stage that the load overloads, and how many places it needs; else None.

    `most` is the share of a stage's capacity that the load may take.
    """
    for stage, (count, share) in places(site, question.work).items():
        busy = question.busy * share
        if busy >= most * count:
            return stage, floor(busy) + 1
    return None


def part_of(stage: RequestStage) -> str:
    return _PARTS[stage][0]


def refuse_overload(site: Site, question: Question) -> None:
    """Raise Refused if a queue would grow without bound: its waits could not be predicted."""
    found = overloaded(site, question)
    if found is None:
        return
    stage, needed = found
    count, share = places(site, question.work)[stage]
    part, remedy = _PARTS[stage]
    time = milliseconds(question.service.mean * share)
    raise Refused(
        f"unstable: {question.rate:g}/s x {time} keep {question.busy * share:.1f} {part} "
        f"busy, and there are {count:g}: needs {needed:,}",
        f"It needs {needed:,} or more before it makes sense to plan for waiting. {remedy}",
    )
