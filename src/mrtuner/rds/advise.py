"""Our advice for a live instance: the group that its class, version and storage ask for."""

from __future__ import annotations

from dataclasses import dataclass

from mrtuner.aws.ec2 import instance_type
from mrtuner.aws.errors import AwsError
from mrtuner.aws.session import Account, client
from mrtuner.catalog.classes import InstanceClass, instance_class, instance_classes
from mrtuner.errors import BadValue
from mrtuner.rds.group import Design, design
from mrtuner.rds.target import Target
from mrtuner.units import Bytes, GiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """The group we would make, and what to know about it."""

    design: Design
    notes: tuple[str, ...] = ()


def advise(
    target: Target,
    account: Account,
    *,
    workload: str = "mixed",
    connections: int | None = None,
) -> Advised:
    """The design for a target's class. A class unknown to us is looked up in EC2, and said."""
    known, notes = class_of(target, account)
    made = design(
        family_name=target.family,
        class_name=known.name,
        workload=workload,
        connections=connections,
        storage=Bytes(target.writer.allocated_storage * GiB) or None,
    )
    return Advised(design=made, notes=notes)


def class_of(target: Target, account: Account) -> tuple[InstanceClass, tuple[str, ...]]:
    """The target's class, or a known one of the same memory and vCPUs, with a note.

    BadValue when there is neither.
    """
    try:
        return instance_class(target.class_name), ()
    except BadValue as error:
        return _like(target, account, error)


def _like(
    target: Target, account: Account, unknown: BadValue
) -> tuple[InstanceClass, tuple[str, ...]]:
    try:
        machine = instance_type(client("ec2", account), target.class_name.removeprefix("db."))
    except AwsError as error:
        if error.denied:
            raise
        raise unknown from None
    twins = [
        known
        for known in instance_classes(target.engine).values()
        if (known.memory, known.vcpus) == (machine.memory, machine.vcpus)
    ]
    if not twins:
        raise unknown
    note = (
        f"class {target.class_name} is unknown to us: advised as for {twins[0].name}, which has "
        f"the same {machine.memory // GiB} GiB and {machine.vcpus} vCPUs according to EC2"
    )
    return twins[0], (note,)
