"""What holds processes back, as lines for a terminal, from ``mrtuner.pods.measure/1``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mrtuner.text_tables import aligned, bulleted
from mrtuner.units import Bytes, pretty_bytes
from mrtuner_pods.measure.document import HeldBack
from mrtuner_pods.wording import milliseconds

_MOST: Final = 10


def lines(told: HeldBack) -> Iterator[str]:
    """Yield the cause, the evidence for it, what to do, and what was measured."""
    cause = told.cause
    yield f"{cause[0].upper()}{cause[1:]}: {_used(told)}."
    yield from bulleted("Evidence:", told.evidence)
    yield ""
    yield told.action
    yield ""
    yield from aligned(_processes(told), right={2, 3, 4, 5})
    if len(told.processes) > _MOST:
        yield f"and {len(told.processes) - _MOST} more"
    yield ""
    yield from aligned(_limits(told))
    if told.beliefs:
        yield ""
        yield from aligned(_beliefs(told), right={1})


def _used(told: HeldBack) -> str:
    usable = "" if told.usable is None else f" of the {told.usable:.3g} available"
    return f"it used {told.cpu:.2f} CPUs{usable}, over {told.seconds:.0f} s"


def _processes(told: HeldBack) -> Iterator[tuple[str, ...]]:
    yield "process", "name", "CPUs", "threads", "waiting for a CPU", "memory (PSS)"
    for one in told.processes[:_MOST]:
        yield (
            str(one.pid), one.name, f"{one.cpu:.2f}", str(len(one.threads)),
            "?" if one.delay is None else f"{one.delay:.2f}",
            "?" if one.memory is None else pretty_bytes(Bytes(one.memory)),
        )  # fmt: skip


def _limits(told: HeldBack) -> Iterator[tuple[str, ...]]:
    if told.online is not None:
        yield "CPUs online", str(told.online)
    if told.allowed is not None:
        yield "CPUs it may run on", str(told.allowed)
    for one in told.quotas:
        used_up = "" if one.share is None else f", used up in {one.share:.0%} of the periods"
        yield f"quota of {one.group}", f"{one.cpus:.3g} CPUs{used_up} ({one.source})"
    for why in told.hidden:
        yield "could not be read", why
    wait = told.accept_wait
    if wait is not None:
        yield (
            "wait to be accepted",
            f"{milliseconds(wait)} on average: {told.waiting:.3g} connections waited, at "
            f"{told.accepted:.3g} a second (Little's law)",
        )


def _beliefs(told: HeldBack) -> Iterator[tuple[str, ...]]:
    yield "what runtimes count here", "CPUs", "which"
    for one in told.beliefs:
        yield one.runtime, str(one.cpus), one.how
