"""The parameter group of a live instance, compared and changed, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from mrtuner.aws.rows import ApplyMethod
from mrtuner.change.document import ChangeOutcome, SettingNotWritten
from mrtuner.documents import Doc, Document, NotJudged, Struct, convert, field
from rdstune.group.document import ClassMemory
from rdstune.live.compare import ParameterVerdict, formula_gives

if TYPE_CHECKING:
    from rdstune.live.apply import RdsOutcome
    from rdstune.live.compare import Expected, InstanceMachine, ParameterLine
    from rdstune.live.diff import Diff
    from rdstune.live.plan import ParameterStep, RdsPlan

#: The least and the most that a value gives.
Bounds = tuple[str, str]


class ComparedParameter(Struct):
    """A parameter in the group, on the server, and as we advise it."""

    name: Annotated[str, Doc("the parameter")]
    value: Annotated[str | None, Doc("in the group; null: neither it nor the family has one")]
    source: Annotated[str, Doc("user, system or engine-default, as AWS gives it")]
    gives: Annotated[
        Bounds | None, Doc("least and most of the value here, in base units; null: unknown")
    ]
    running: Annotated[str | None, Doc("`pg_settings.setting`; null without `--connect`")]
    unit: Annotated[str | None, Doc("`pg_settings.unit`; null without `--connect`")]
    verdict: Annotated[
        ParameterVerdict,
        Doc("`set by RDS`: the server differs from the group, which users cannot change there"),
    ]
    advised: Annotated[str | None, Doc("the value that we advise; null: no change")]
    advised_gives: Annotated[Bounds | None, Doc("least and most of `advised`, in base units")]


class DiffDocument(Document, tag="mrtuner.rds.diff/1"):
    """Written by `rdstune diff --json`."""

    instance: Annotated[str, Doc("the instance, or its cluster")]
    class_name: Annotated[str, Doc("its class")] = field(name="class")
    group: Annotated[str, Doc("the parameter group")]
    memory: Annotated[ClassMemory, Doc("DBInstanceClassMemory")]
    waiting: Annotated[list[str], Doc("instances that wait for a reboot")]
    down: Annotated[list[str], Doc("instances that do not start with their parameters")]
    culprits: Annotated[list[str], Doc("parameters that keep them from it, as far as is known")]
    parameters: Annotated[list[ComparedParameter], Doc("those that the group sets or we advise")]
    notes: Annotated[list[str], Doc("what it is based on, if unusual")]
    unjudged: Annotated[list[NotJudged], Doc("what could not be compared")] = field(
        default_factory=list
    )


class GroupStep(Struct):
    """A parameter to set."""

    name: Annotated[str, Doc("the parameter")]
    before: Annotated[str | None, Doc("the value that a user had set; null: none")]
    shown: Annotated[str | None, Doc("the group's value, also if it is a default")] = field(
        name="now"
    )
    value: Annotated[str, Doc("the new value")]
    gives: Annotated[str | None, Doc("what the new value gives here, if it is a formula")]
    method: Annotated[ApplyMethod, Doc("its ApplyMethod")]
    reason: Annotated[str, Doc("why")]


class GroupPlan(Struct):
    """What is to be done."""

    target: Annotated[str, Doc("the instance, or its cluster")]
    group: Annotated[str, Doc("the group that is written")]
    family: Annotated[str, Doc("its family")]
    creates: Annotated[bool, Doc("whether the group is created")]
    attaches: Annotated[bool, Doc("whether it is attached in place of another")]
    shared: Annotated[list[str], Doc("other instances that use it")]
    steps: Annotated[list[GroupStep], Doc("what is written")]
    left_alone: Annotated[list[SettingNotWritten], Doc("what is not")]
    warnings: Annotated[list[str], Doc("sentences")]


class GroupOutcome(ChangeOutcome):
    """What happened to a change of a parameter group."""

    waiting: Annotated[list[str], Doc("instances that wait for a reboot")]
    target: Annotated[str, Doc("the instance, or its cluster")]
    group: Annotated[str, Doc("the group that was written")]
    calls: Annotated[
        int, Doc("calls of this run that wrote to the group, each of at most 20 parameters")
    ]


class ApplyDocument(Document, tag="mrtuner.rds.apply/1"):
    """Written by `rdstune apply --json`."""

    recovered: Annotated[
        GroupOutcome | None, Doc("what became of an earlier interrupted change; null: none")
    ]
    plan: Annotated[GroupPlan, Doc("what was to be done")]
    outcome: Annotated[GroupOutcome, Doc("what was done")]
    server: Annotated[
        list[ComparedParameter] | None, Doc("with `--connect`, the parameters that were changed")
    ]
    undo: Annotated[str | None, Doc("the command that takes it back")]


class UndoDocument(Document, tag="mrtuner.rds.undo/1"):
    """Written by `rdstune undo --json`."""

    recovered: Annotated[
        GroupOutcome | None, Doc("what became of an earlier interrupted change; null: none")
    ]
    outcome: Annotated[GroupOutcome, Doc("what was done")]


def diff_document(found: Diff, notes: Sequence[str]) -> DiffDocument:
    return DiffDocument(
        instance=found.target.identifier,
        class_name=found.target.class_name,
        group=found.group,
        memory=convert(found.machine.memory, ClassMemory),
        waiting=list(found.target.waiting),
        down=list(found.target.incompatible),
        culprits=list(found.why_down.culprits) if found.why_down else [],
        parameters=[_line(one) for one in found.lines],
        notes=list(notes),
        unjudged=[convert(one, NotJudged) for one in found.unjudged],
    )


def _line(line: ParameterLine) -> ComparedParameter:
    return ComparedParameter(
        name=line.name,
        value=line.value,
        source=line.source,
        gives=_bounds(line.expected),
        running=line.running,
        unit=line.unit,
        verdict=line.verdict,
        advised=line.advised,
        advised_gives=_bounds(line.advised_gives),
    )


def _bounds(found: Expected | None) -> Bounds | None:
    return None if found is None else (found.low, found.high)


def apply_document(
    plan: RdsPlan,
    machine: InstanceMachine | None,
    notes: Sequence[str],
    *,
    recovered: RdsOutcome | None,
    outcome: RdsOutcome,
    lines: Sequence[ParameterLine] | None,
    undo: str | None,
) -> ApplyDocument:
    """Return a change: its plan with further warnings (`notes`), the outcome, and the server."""
    return ApplyDocument(
        recovered=_outcome(recovered),
        plan=GroupPlan(
            target=plan.target.identifier,
            group=plan.group,
            family=plan.family,
            creates=plan.creates,
            attaches=plan.attaches,
            shared=list(plan.shared),
            steps=[_step(one, machine) for one in plan.steps],
            left_alone=[convert(one, SettingNotWritten) for one in plan.left_alone],
            warnings=[*plan.warnings, *notes],
        ),
        outcome=convert(outcome, GroupOutcome),
        server=None if lines is None else [_line(one) for one in lines],
        undo=undo,
    )


def undo_document(recovered: RdsOutcome | None, outcome: RdsOutcome) -> UndoDocument:
    return UndoDocument(recovered=_outcome(recovered), outcome=convert(outcome, GroupOutcome))


def _outcome(outcome: RdsOutcome | None) -> GroupOutcome | None:
    return None if outcome is None else convert(outcome, GroupOutcome)


def _step(step: ParameterStep, machine: InstanceMachine | None) -> GroupStep:
    return GroupStep(
        name=step.name,
        before=step.before,
        shown=step.shown,
        value=step.value,
        gives=formula_gives(step.value, machine),
        method=step.method,
        reason=step.reason,
    )
