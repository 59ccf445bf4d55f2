"""Memory of a pod, and whether the kernel kills it for that."""

from __future__ import annotations

from mrtuner.errors import Refused
from mrtuner.units import pretty_bytes
from mrtuner.wording import plural
from mrtuner_pods.planning.inputs import Question


def memory(question: Question, workers: int) -> int | None:
    """Return the memory of a pod with all processes at their peaks; None if it is not known."""
    if question.master_memory is None or question.worker_memory is None:
        return None
    return question.master_memory + workers * question.worker_memory


def killed(question: Question, workers: int, limit: int | None) -> str | None:
    """Return why a pod with this memory limit is killed; None if it is not, or nothing is known.

    Without the master's memory, that of the workers alone may be too much already.
    """
    if limit is None or question.worker_memory is None:
        return None
    needs = (question.master_memory or 0) + workers * question.worker_memory
    if needs <= limit:
        return None
    master = "" if question.master_memory is None else (
        f" and a master of {pretty_bytes(question.master_memory)}"
    )  # fmt: skip
    return (
        f"{plural(workers, 'worker')} of {pretty_bytes(question.worker_memory)}{master} need "
        f"{pretty_bytes(needs)}, and a pod has {pretty_bytes(limit)}"
    )


def most_workers(question: Question) -> int | None:
    """Return how many workers a planned pod has memory for; None: as many as wanted."""
    if question.pod_memory is None or question.worker_memory is None:
        return None
    return max(0, question.pod_memory - (question.master_memory or 0)) // question.worker_memory


def refuse_killed(question: Question, workers: int) -> None:
    """Raise Refused if the kernel would kill pods with so many workers."""
    why = killed(question, workers, question.pod_memory)
    if why is not None:
        fit = plural(most_workers(question) or 0, "worker")
        raise Refused(
            f"the kernel kills such a pod for its memory (OOM): {why}",
            f"Its memory is enough for {fit}: plan fewer, or give --pod-memory more.",
        )
