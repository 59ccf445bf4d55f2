"""Read replicas: when raising a value, change them first; when lowering it, the primary first.

For five parameters a standby needs at least its primary's value, or it stops replaying. RDS
overrides a replica's values that would keep it from starting (RDS User Guide), which hides the
mistake until the next promotion. Source: PostgreSQL documentation, Hot Standby.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mrtuner.aws import rds
from mrtuner.aws.calls import unless_missing
from mrtuner.aws.rows import Instance, Scope
from mrtuner.catalog.classes import instance_class
from mrtuner.change.journal import Journal
from mrtuner.change.record import Change, State
from mrtuner.errors import BadValue, Refused
from mrtuner.formula.class_memory import class_memory
from mrtuner.postgres.model import FOLLOW_PRIMARY
from rdstune.live.compare import InstanceMachine, expected, machine
from rdstune.live.plan import RdsPlan, differing
from rdstune.live.target import Target


@dataclass(frozen=True, slots=True)
class Move:
    """A parameter's value, from and to; None where it is not known."""

    name: str
    before: str | None
    after: str | None


def moves(plan: RdsPlan) -> list[Move]:
    """Return what a plan changes of that which a standby must not have less of than its primary.

    Where it attaches another group, that is what differs from the one attached now.
    """
    found = {name: Move(name, before, now) for name, (now, before) in plan.differ.items()}
    for one in plan.steps:
        before = found[one.name].before if one.name in found else one.shown
        found[one.name] = Move(one.name, before, one.value)
    return [one for name, one in found.items() if name in FOLLOW_PRIMARY]


def moves_back(client: Any, target: Target, done: Change) -> list[Move]:
    """Return the same for an undo. Where no user had set a value, the default's was in force."""
    before = done.group.attached_before if done.group else target.group
    return _swapped(client, target, target.group, before) or _back(done)


def _swapped(client: Any, target: Target, now: str, then: str) -> list[Move]:
    """Return what attaching another group changes of it; nothing if one of the two is gone."""
    if now == then:
        return []
    read = partial(rds.parameters, client, scope=target.scope)
    have, get = (unless_missing(partial(read, name)) for name in (now, then))
    if have is None or get is None:
        return []
    return [
        Move(name, *texts) for name, texts in differing(have, get).items() if name in FOLLOW_PRIMARY
    ]


def _back(done: Change) -> list[Move]:
    return [
        Move(one.name, one.after, one.in_force if one.before is None else one.before)
        for one in done.entries
        if one.name in FOLLOW_PRIMARY
    ]


def moves_written(client: Any, journal: Journal, target: Target) -> list[Move]:
    """Return how each of them was changed last in the group in use, by whichever of its users."""
    done, latest = dict[int | None, Change](), dict[str, Move]()
    for one in journal.changes():
        done[one.id] = one
        used = one.group and target.group in (
            {one.group.name, one.group.attached_after}
            if one.server == target.arn
            else {one.group.name}
        )
        if one.state is State.VERIFIED and used and _account(one.server) == _account(target.arn):
            undone = done.get(one.undoes) if one.undoes is not None else None
            moved = _back(undone) if undone else _forth(one)
            if one.group and one.server == target.arn:
                names = one.group.attached_before, one.group.attached_after
                moved = _swapped(client, target, *names) or moved
            latest |= {each.name: each for each in moved}
    return list(latest.values())


def _forth(done: Change) -> list[Move]:
    followed = (one for one in done.entries if one.name in FOLLOW_PRIMARY)
    return [Move(one.name, one.in_force, one.after) for one in followed]


def _account(arn: str) -> list[str]:
    """Return the region and the account of an ARN."""
    return arn.split(":")[3:5]


def refuse_floors(
    client: Any, target: Target, moved: Sequence[Move], group: str, reboot: str
) -> None:
    """Refuse a change that would leave a replica below its primary; name what to change first.

    `group` is the one that is changed: all that use it change together, but reboot one by one.
    """
    here = target.writer
    raised, replicas, lowered, primary = _sides(client, target, moved)
    if reboot == "now":
        _refuse_waiting(raised, replicas, lowered, primary, group)
    for replica in replicas:
        if _uses(replica, group):
            continue
        pairs = _pairs(client, here, raised, replica)
        _refuse(
            replica.identifier,
            [f"{name} {theirs} instead of {ours}" for name, ours, theirs in pairs if theirs < ours],
            f"Raise it there first: rdstune apply {replica.identifier}.",
        )
    if primary is not None:
        pairs = _pairs(client, here, lowered, primary)
        _refuse(
            target.identifier,
            [f"{name} {ours} instead of {theirs}" for name, ours, theirs in pairs if ours < theirs],
            f"Lower it on the primary first: rdstune apply {primary.identifier}.",
        )


def refuse_reboot(client: Any, target: Target, moved: Sequence[Move]) -> None:
    """Refuse a reboot for what was written before, if the other side has to go first."""
    _refuse_waiting(*_sides(client, target, moved), None)


def _sides(
    client: Any, target: Target, moved: Sequence[Move]
) -> tuple[list[Move], list[Instance], list[Move], Instance | None]:
    """Return what rises, the replicas that must have it before; what falls, the primary of that."""
    if not moved or target.scope is not Scope.INSTANCE:
        return [], [], [], None
    here = target.writer
    raised, lowered = _directions(here, moved)
    return (
        raised, list(_replicas(client, here)) if raised else [],
        lowered, _primary(client, here) if lowered else None,
    )  # fmt: skip


def _refuse_waiting(
    raised: Sequence[Move],
    replicas: Sequence[Instance],
    lowered: Sequence[Move],
    primary: Instance | None,
    group: str | None,
) -> None:
    """Refuse it while a replica waits for the raised values, or the primary for the lowered ones.

    Until then they run what they had, whatever their group says. `group` is still to be written.
    """

    def waits(one: Instance) -> bool:
        return _uses(one, group) or any(use.status == "pending-reboot" for use in one.groups)

    for replica in replicas:
        if waits(replica):
            raise Refused(
                f"replica {replica.identifier} must be rebooted first:"
                f" {_names(raised)} would be higher on the primary",
                _first(replica, _uses(replica, group)),
            )
    if primary is not None and waits(primary):
        raise Refused(
            f"primary {primary.identifier} must be rebooted first:"
            f" {_names(lowered)} would be lower on the replica",
            _first(primary, _uses(primary, group)),
        )


def _first(other: Instance, shares: bool) -> str:
    command = f"rdstune apply {other.identifier} --reboot now"
    if shares:
        return f"Apply with --reboot never, run {command}, then repeat this command."
    return f"Run {command}, then repeat this command."


def _names(moved: Iterable[Move]) -> str:
    return ", ".join(one.name for one in moved)


def _directions(here: Instance, moved: Sequence[Move]) -> tuple[list[Move], list[Move]]:
    """Return what rises there, or may, and what does not."""
    of = _machine(here)
    raised = []
    for one in moved:
        before, after = number(one.before, of), number(one.after, of)
        if before is None or after is None or after > before:
            raised.append(one)
    return raised, [one for one in moved if one not in raised]


def _uses(instance: Instance, group: str | None) -> bool:
    return any(use.name == group for use in instance.groups)


def _replicas(client: Any, primary: Instance) -> Iterator[Instance]:
    """Yield the replicas in this region, and theirs: each replays what the primary writes."""
    for name in primary.replicas:
        replica = _instance(client, name)
        if replica is not None:
            yield replica
            yield from _replicas(client, replica)


def _primary(client: Any, replica: Instance) -> Instance | None:
    return _instance(client, replica.replica_of) if replica.replica_of else None


def _instance(client: Any, name: str) -> Instance | None:
    """Return an instance of this region; None for one elsewhere, which is named by its ARN."""
    return None if ":" in name else unless_missing(lambda: rds.instance(client, name))


def _pairs(
    client: Any, here: Instance, moved: Sequence[Move], other: Instance
) -> Iterator[tuple[str, int, int]]:
    """Yield each parameter's name, its new value here, and the value in the other's group."""
    ours_on, theirs_on = _machine(here), _machine(other)
    values = _values(client, other)
    for one in moved:
        ours, theirs = number(one.after, ours_on), number(values.get(one.name), theirs_on)
        if ours is not None and theirs is not None:
            yield one.name, ours, theirs


def _refuse(replica: str, gaps: list[str], hint: str) -> None:
    if gaps:
        raise Refused(f"replica {replica} would be below its primary: {', '.join(gaps)}", hint)


def _values(client: Any, instance: Instance) -> dict[str, str]:
    rows = rds.parameters(client, instance.groups[0].name)
    return {row.name: row.value for row in rows if row.value is not None}


def _machine(instance: Instance) -> InstanceMachine | None:
    """Return the instance's machine; None for an unknown class: its values go unchecked."""
    try:
        known = instance_class(instance.class_name)
    except BadValue:
        return None
    return machine(instance, class_memory(known, instance.engine), known.vcpus)


def number(value: str | None, of: InstanceMachine | None) -> int | None:
    """Return the integer that a value gives on a machine, at the middle of its estimated memory."""
    if value is None or of is None:
        return None
    middle = replace(of.memory, low=of.memory.value, high=of.memory.value)
    found = expected(value, replace(of, memory=middle))
    return int(found.low) if found and found.low.lstrip("-").isdigit() else None
