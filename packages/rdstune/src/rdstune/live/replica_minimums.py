"""Read replicas: when raising a value, change them first; when lowering it, the primary first.

For five parameters a standby needs at least its primary's value, or it stops replaying. RDS
overrides a replica's values that would keep it from starting (RDS User Guide), which hides the
mistake until the next promotion. Source: PostgreSQL documentation, Hot Standby.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mrtuner.aws import rds
from mrtuner.aws.calls import unless_missing
from mrtuner.aws.rows import Instance, Scope
from mrtuner.catalog.classes import instance_class
from mrtuner.errors import BadValue, Refused
from mrtuner.formula.class_memory import class_memory
from mrtuner.postgres.model import FOLLOW_PRIMARY
from rdstune.live.compare import InstanceMachine, expected, machine
from rdstune.live.plan import ParameterStep, RdsPlan


def refuse_floors(client: Any, plan: RdsPlan, reboot: str) -> None:
    """Refuse a change that would leave a replica below its primary; name what to change first."""
    steps = [step for step in plan.steps if step.name in FOLLOW_PRIMARY]
    if not steps or plan.target.scope is not Scope.INSTANCE:
        return
    here = plan.target.writer
    for name in here.replicas:
        replica = _instance(client, name)
        if replica is not None:
            _refuse_primary(client, plan, steps, replica, reboot)
    primary = _instance(client, here.replica_of) if here.replica_of else None
    if primary is not None:
        _refuse_replica(client, plan, steps, primary)


def _instance(client: Any, name: str) -> Instance | None:
    """Return an instance of this region; None for one elsewhere, which is named by its ARN."""
    return None if ":" in name else unless_missing(lambda: rds.instance(client, name))


def _refuse_primary(
    client: Any, plan: RdsPlan, steps: list[ParameterStep], replica: Instance, reboot: str
) -> None:
    raised = [step for step in steps if _raises(plan, step)]
    if any(use.name == plan.group for use in replica.groups):
        if raised and reboot == "now":
            raise Refused(
                f"replica {replica.identifier} uses the same group and must be rebooted first:"
                f" {', '.join(step.name for step in raised)} would be higher on the primary",
                f"Apply with --reboot never, run rdstune apply {replica.identifier} --reboot now,"
                " then repeat this command.",
            )
        return
    pairs = _pairs(client, plan, raised, replica)
    _refuse(
        replica.identifier,
        [f"{name} {theirs} instead of {ours}" for name, ours, theirs in pairs if theirs < ours],
        f"Raise it there first: rdstune apply {replica.identifier}.",
    )


def _raises(plan: RdsPlan, step: ParameterStep) -> bool:
    here = _machine(plan.target.writer)
    before, after = number(step.shown, here), number(step.value, here)
    return before is None or after is None or after > before


def _refuse_replica(
    client: Any, plan: RdsPlan, steps: list[ParameterStep], primary: Instance
) -> None:
    lowered = [step for step in steps if not _raises(plan, step)]
    pairs = _pairs(client, plan, lowered, primary)
    _refuse(
        plan.target.identifier,
        [f"{name} {ours} instead of {theirs}" for name, ours, theirs in pairs if ours < theirs],
        f"Lower it on the primary first: rdstune apply {primary.identifier}.",
    )


def _pairs(
    client: Any, plan: RdsPlan, steps: list[ParameterStep], other: Instance
) -> Iterator[tuple[str, int, int]]:
    """Yield each step's name, its new value here, and the value on the other instance."""
    here, there = _machine(plan.target.writer), _machine(other)
    values = _values(client, other)
    for step in steps:
        ours, theirs = number(step.value, here), number(values.get(step.name), there)
        if ours is not None and theirs is not None:
            yield step.name, ours, theirs


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
