"""Our advice for a live instance: the group that fits its class, version and storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mrtuner.aws import rds
from mrtuner.aws.errors import AwsError
from mrtuner.aws.rows import Scope
from mrtuner.aws.session import Account, client
from mrtuner.catalog.classes import InstanceClass, instance_class, instance_classes
from mrtuner.catalog.ec2 import class_from_ec2
from mrtuner.errors import BadValue, MrTunerError, Refused
from mrtuner.postgres.connect import connect, translated
from mrtuner.units import Bytes, GiB, pretty_bytes
from rdstune.group.derive import Design, design
from rdstune.group.group_settings import Setting
from rdstune.group.sizes import MOST_SHARED, Size, on_class
from rdstune.group.source import GroupEntry, WrittenGroup
from rdstune.lint.check import Severity, lint
from rdstune.live.plan import RdsPlan, user_values
from rdstune.live.target import Target, classes, overruling


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """The group that we advise, the settings of it that this server accepts, and notes."""

    design: Design
    settings: tuple[Setting, ...]
    notes: tuple[str, ...] = ()

    @property
    def values(self) -> dict[str, str]:
        return {setting.name: setting.value for setting in self.settings}


def advise(
    target: Target,
    account: Account,
    *,
    workload: str = "mixed",
    connections: int | None = None,
    dsn: str | None = None,
) -> Advised:
    """Return the group for a target's class; for an unknown class, ask EC2 and add a note.

    With a connection string, leave out values that the server's build does not support, and add
    a note.
    """
    known, notes = class_of(target, account)
    kept = None if connections is not None else _connections_in_force(target, account)
    made = design(
        family_name=target.family,
        class_name=known.name,
        workload=workload,
        connections=connections,
        storage=Bytes(target.writer.allocated_storage * GiB) or None,
        kept=kept,
    )
    without = _lacking(dsn, made.values) if dsn else {}
    return Advised(
        design=made,
        settings=tuple(one for one in made.settings if one.name not in without),
        notes=(
            *notes,
            *((made.sessions.promise, made.sessions.buys) if made.sessions else ()),
            *(f"{name} is left out: {why}" for name, why in without.items()),
        ),
    )


def _connections_in_force(target: Target, account: Account) -> str | None:
    """Return max_connections as a user set it for the writer; None for the default."""
    api = client("rds", account)
    rows = rds.parameters(api, target.group, target.scope, source="user")
    values = {**user_values(rows), **overruling(api, target, target.writer)}
    return values.get("max_connections")


def _lacking(dsn: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return parameters whose values (lz4, io_uring …) this build does not support, and why."""
    with connect(dsn) as conn, translated():
        rows = conn.execute(
            "SELECT name, enumvals FROM pg_settings WHERE enumvals IS NOT NULL AND name = ANY(%s)",
            (list(values),),
        ).fetchall()
    return {
        name: f"this server supports only {', '.join(words)}"
        for name, words in rows
        if values[name].lower() not in words
    }


def class_of(target: Target, account: Account) -> tuple[InstanceClass, tuple[str, ...]]:
    """Return the target's class, or a known one of equal memory and vCPUs with a note.

    Raises BadValue when there is neither, AwsError when EC2 denies the call.
    """
    return _class_named(target.class_name, target.engine, account)


def others_of(plan: RdsPlan, account: Account) -> tuple[dict[str, InstanceClass], tuple[str, ...]]:
    """Return the classes of the other instances with the plan's group; a note for each unknown one.

    They are the readers of a cluster, and whoever shares the group.
    """
    target, found = plan.target, dict[str, InstanceClass]()
    notes: list[str] = []
    for name, class_name in classes(client("rds", account), target, plan.shared).items():
        if class_name == target.class_name:
            continue
        try:
            found[name], _ = _class_named(class_name, target.engine, account)
        except BadValue as error:
            notes.append(f"{error.message}: whether {name} starts with the values is not checked")
    return found, tuple(notes)


def _class_named(name: str, engine: str, account: Account) -> tuple[InstanceClass, tuple[str, ...]]:
    try:
        return instance_class(name), ()
    except BadValue as error:
        return _like(name, engine, account, error)


def _like(
    name: str, engine: str, account: Account, unknown: BadValue
) -> tuple[InstanceClass, tuple[str, ...]]:
    try:
        machine = class_from_ec2(name, account)
    except MrTunerError as error:
        if isinstance(error, AwsError) and error.denied:
            raise
        raise unknown from None
    twins = [
        known
        for known in instance_classes(engine).values()
        if (known.memory, known.vcpus) == (machine.memory, machine.vcpus)
    ]
    if not twins:
        raise unknown
    note = (
        f"class {name} is not in our catalog: the advice is for {twins[0].name}, "
        f"which has the same {machine.memory // GiB} GiB and {machine.vcpus} vCPUs according to EC2"
    )
    return twins[0], (note,)


def refuse_overflow(
    made: Design, plan: RdsPlan, others: Mapping[str, InstanceClass]
) -> tuple[str, ...]:
    """Refuse a group whose values together do not fit the class; name those that are not ours.

    Also refuse one with which another instance that has it, of `others`, would not start. Return
    a warning instead if the attached values do not fit either and the change adds no memory, or
    if others only exceed their budget; nothing if the values fit, or if nothing changes and the
    server starts.
    """
    values = {**plan.user_values, **{step.name: step.value for step in plan.steps}}
    warnings = []
    for name, each in others.items():
        there = on_class(values, made.request, each)
        if there.holds or plan.nothing:
            continue
        message = f"{name} ({each.name}) has this group too: {_overflow(there)}"
        if not there.starts:
            raise Refused(message, "Give it a group of its own, or a class like the others'.")
        warnings.append(message)
    own = _on_its_class(made, plan, values)
    return (*warnings, own) if own else tuple(warnings)


def _on_its_class(made: Design, plan: RdsPlan, values: Mapping[str, str]) -> str | None:
    after = on_class(values, made.request, made.instance_class)
    if after.holds or (plan.nothing and after.starts):
        return None
    theirs = sorted(values.keys() - made.values.keys())
    message = _overflow(after)
    before = on_class(plan.attached_values, made.request, made.instance_class)
    if after.starts and not before.holds and after.share <= before.share:
        return f"{message}; it did not fit before either"
    raise Refused(message, f"Change the group's other values: {', '.join(theirs)}.")


def refuse_mistakes(
    plan: RdsPlan, known: InstanceClass, source: str, others: Mapping[str, InstanceClass]
) -> tuple[str, ...]:
    """Refuse values that lint calls an error on this class; return its warnings as text.

    The same for the class of each of `others` that have the group. The values are checked together
    with the group's other values. Apply methods are not checked: we choose them.
    """
    values = {**plan.user_values, **{step.name: step.value for step in plan.steps}}
    group = WrittenGroup(
        entries=tuple(GroupEntry(name=name, value=value) for name, value in values.items()),
        source=source,
        family=plan.family,
        cluster=plan.target.scope is Scope.CLUSTER,
    )
    ours = {step.name for step in plan.steps} | {None}
    warnings: dict[str, None] = {}
    for name, each in {"": known, **others}.items():
        found = [one for one in lint(group, classes=[each]) if one.parameter in ours]
        where = f"{name} ({each.name}) has this group too: " if name else ""
        if errors := [one for one in found if one.severity is Severity.ERROR]:
            remedy = errors[0].remedy.rstrip(".")
            told = "; ".join(one.told for one in errors)
            raise Refused(f"{where}{told}", f"{remedy}." if remedy else None)
        told_here = (one.told for one in found if one.severity is Severity.WARNING)
        warnings |= dict.fromkeys(one if not name else f"{where}{one}" for one in told_here)
    return tuple(warnings)


def _overflow(size: Size) -> str:
    if size.outside:
        return f"the server would reject {', '.join(size.outside)}"
    if not size.starts:
        return (
            f"with all values of the group, shared memory takes {float(size.shared):.0%} of "
            f"memory: beyond {float(MOST_SHARED):.0%} RDS does not start the instance"
        )
    return (
        f"with all values of the group, the worst case takes "
        f"{pretty_bytes(size.budget.total)} of {pretty_bytes(size.budget.ceiling)}"
    )
