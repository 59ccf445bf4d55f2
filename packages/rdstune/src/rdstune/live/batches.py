"""A parameter group's changes in calls of at most 20 parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mrtuner.aws import rds
from mrtuner.aws.rds import BATCH
from mrtuner.aws.rows import ApplyMethod, Scope
from mrtuner.change.record import ParameterChange

Direction = Literal["after", "before"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One call: the parameters that it sets, or the ones that it resets."""

    kind: Literal["set", "reset"]
    entries: tuple[ParameterChange, ...]
    direction: Direction
    number: int
    of: int

    def __str__(self) -> str:
        names = ", ".join(one.name for one in self.entries)
        return f"{self.kind} ({self.number} of {self.of}) {names}"


def batches(entries: Sequence[ParameterChange], direction: Direction) -> tuple[Batch, ...]:
    """Return calls that write the values after or before a change: sets, then resets, in order."""
    set_ = [one for one in entries if value(one, direction) is not None]
    reset = [one for one in entries if value(one, direction) is None]
    parts: list[tuple[Literal["set", "reset"], tuple[ParameterChange, ...]]] = [
        *(("set", part) for part in _parts(set_)),
        *(("reset", part) for part in _parts(reset)),
    ]
    return tuple(
        Batch(kind=kind, entries=part, direction=direction, number=number, of=len(parts))
        for number, (kind, part) in enumerate(parts, 1)
    )


def _parts(entries: Sequence[ParameterChange]) -> Iterator[tuple[ParameterChange, ...]]:
    for start in range(0, len(entries), BATCH):
        yield tuple(entries[start : start + BATCH])


def value(one: ParameterChange, direction: Direction) -> str | None:
    """Return an entry's value after or before the change; None for a reset."""
    return one.after if direction == "after" else one.before


def method(one: ParameterChange) -> ApplyMethod:
    """Return the apply method: `immediate` on a static parameter rejects the whole batch."""
    return "pending-reboot" if one.restart else "immediate"


def send(client: Any, group: str, scope: Scope, batch: Batch) -> None:
    if batch.kind == "reset":
        rds.reset_group(client, group, [(one.name, method(one)) for one in batch.entries], scope)
        return
    rows = [(one.name, value(one, batch.direction) or "", method(one)) for one in batch.entries]
    rds.modify_group(client, group, rows, scope)
