"""A parameter group before it exists, and single formulas, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec.structs import asdict

from mrtuner.aws.rows import ApplyMethod
from mrtuner.documents import UNSET, Doc, Document, Struct, UnsetType, convert, field
from mrtuner.inputs import Workload
from rdstune.group.evaluate import ValueProblem

if TYPE_CHECKING:
    from rdstune.group.derive import Design
    from rdstune.group.evaluate import Evaluation
    from rdstune.group.group_settings import Setting
    from rdstune.group.sizes import Size

# The group for a class.


class ClassMemory(Struct):
    """DBInstanceClassMemory in bytes, which AWS does not publish."""

    value: Annotated[int, Doc("the most likely value")]
    low: Annotated[int, Doc("the least that it can be")]
    high: Annotated[int, Doc("the most that it can be")]
    source: Annotated[str, Doc("where the value comes from")]
    measured: Annotated[bool, Doc("given, or read from an instance: not an estimate")]


class GroupParameter(Struct):
    """A parameter that the group sets."""

    name: Annotated[str, Doc("the parameter")]
    value: Annotated[str, Doc("its ParameterValue")]
    method: Annotated[ApplyMethod, Doc("its ApplyMethod")]
    scales: Annotated[bool, Doc("whether the value depends on the machine")]
    share: Annotated[
        float,
        Doc("of what the rule gives on this class; a formula that holds on all may give less"),
    ]
    evaluated: Annotated[str, Doc("what it gives on this class, in the base unit")]
    shown: Annotated[str, Doc("the same as in postgresql.conf")]
    reason: Annotated[str, Doc("why")]


class CountedSessions(Struct):
    """What the budget counts if the number of connections was not given."""

    allowed: Annotated[tuple[int, int], Doc("max_connections, least and most")]
    open: Annotated[int, Doc("sessions counted")]
    active: Annotated[int, Doc("of these, sorting at the same moment")]
    work_mem: Annotated[int, Doc("as the rules give it [bytes]")]
    work_mem_then: Annotated[int, Doc("with `active` as the number of connections [bytes]")]
    worst_case: Annotated[int, Doc("memory that the rules' values may take [bytes]")]
    worst_case_then: Annotated[int, Doc("with `active` as the number of connections [bytes]")]
    command: Annotated[str, Doc("the command that gives this number")]


class GroupOnClass(Struct):
    """What the group gives on a class."""

    class_name: Annotated[str, Doc("the instance class")] = field(name="class")
    memory: Annotated[int, Doc("DBInstanceClassMemory, the most likely value [bytes]")]
    values: Annotated[dict[str, str], Doc("by parameter, in base units")]
    worst_case: Annotated[int, Doc("memory that the values may take [bytes]")]
    ceiling: Annotated[int, Doc("memory that they should not exceed [bytes]")]
    holds: Annotated[bool, Doc("whether they are below the ceiling and no value is refused")]
    outside: Annotated[list[str], Doc("values that the server would refuse")]


class GroupDocument(Document, tag="mrtuner.rds.group/1"):
    """Written by `rdstune show --json`.

    A ParameterValue is a formula, or a number in the parameter's base unit.
    """

    family: Annotated[str, Doc("the parameter group family, such as postgres17")]
    class_name: Annotated[str, Doc("the class that the group is made for")] = field(name="class")
    workload: Annotated[Workload, Doc("what the server is used for")]
    connections: Annotated[int | None, Doc("as given; null: not given")]
    memory: Annotated[ClassMemory, Doc("on that class")]
    parameters: Annotated[list[GroupParameter], Doc("what the group sets")]
    without: Annotated[dict[str, str], Doc("parameters left alone, each with the reason")]
    sessions: Annotated[CountedSessions | None, Doc("null if `connections` was given")]
    classes: Annotated[list[GroupOnClass], Doc("every class of the engine, least memory first")]


def group_document(design: Design, here: Size, sizes: Sequence[Size]) -> GroupDocument:
    """Return a group, what it gives on its own class (`here`), and on every class."""
    return GroupDocument(
        family=design.family.name,
        class_name=design.instance_class.name,
        workload=design.request.workload,
        connections=design.request.connections,
        memory=convert(design.memory, ClassMemory),
        parameters=[_parameter(design, one, here) for one in design.settings],
        without=dict(design.without),
        sessions=_sessions(design),
        classes=[_class(size) for size in sizes],
    )


def _parameter(design: Design, setting: Setting, here: Size) -> GroupParameter:
    return GroupParameter(
        name=setting.name,
        value=setting.value,
        method=setting.method,
        scales=setting.scales,
        share=round(setting.share, 3),
        evaluated=here.values[setting.name],
        shown=design.shown(setting.name, here),
        reason=setting.reason,
    )


def _sessions(design: Design) -> CountedSessions | None:
    some = design.sessions
    if some is None:
        return None
    return CountedSessions(
        allowed=some.allowed,
        open=some.reckoned.open,
        active=some.reckoned.active,
        work_mem=some.work_mem,
        work_mem_then=some.work_mem_then,
        worst_case=some.worst,
        worst_case_then=some.worst_then,
        command=design.command_with_connections,
    )


def _class(size: Size) -> GroupOnClass:
    return GroupOnClass(
        class_name=size.instance_class.name,
        memory=size.memory.value,
        values=dict(size.values),
        worst_case=size.budget.total,
        ceiling=size.budget.ceiling,
        holds=size.holds,
        outside=list(size.outside),
    )


# The group for infrastructure as code.


class RenderedParameter(Struct):
    """A parameter that the group sets."""

    name: Annotated[str, Doc("the parameter")]
    value: Annotated[str, Doc("a formula, or a number in the parameter's base unit")]
    method: Annotated[ApplyMethod, Doc("its ApplyMethod")]
    reason: Annotated[str, Doc("why")]


class RenderDocument(Document, tag="mrtuner.rds.render/2"):
    """Written by `rdstune render --json`. `mrtuner.rds.render/1` also held the rendered text."""

    name: Annotated[str, Doc("name of the group")]
    cluster: Annotated[bool, Doc("whether it is a DB cluster parameter group")]
    family: Annotated[str, Doc("the parameter group family, such as postgres17")]
    class_name: Annotated[str, Doc("the class that the group is made for")] = field(name="class")
    parameters: Annotated[list[RenderedParameter], Doc("what the group sets")]


def render_document(design: Design, name: str, *, cluster: bool) -> RenderDocument:
    return RenderDocument(
        name=name,
        cluster=cluster,
        family=design.family.name,
        class_name=design.instance_class.name,
        parameters=[convert(one, RenderedParameter) for one in design.of_group(cluster=cluster)],
    )


# A formula.


class EvaluatedMemory(ClassMemory):
    """DBInstanceClassMemory in bytes, which AWS does not publish."""

    extrapolated: Annotated[bool, Doc("beyond the largest class of which a value is known")]


class EvaluatedClass(Struct):
    """What the formula gives on a machine, as far as the machine is known."""

    class_name: Annotated[str | None, Doc("the instance class")] = field(name="class")
    memory: Annotated[EvaluatedMemory | None, Doc("DBInstanceClassMemory")]
    vcpus: Annotated[int | None, Doc("DBInstanceVCPU")]
    storage: Annotated[int | None, Doc("AllocatedStorage [bytes]")]
    value: Annotated[int, Doc("with the most likely memory, in the parameter's base unit")]
    low: Annotated[int, Doc("the least that the bounds of the memory allow")]
    high: Annotated[int, Doc("the most that the bounds of the memory allow")]
    size: Annotated[int | None, Doc("the value in bytes; null: it is no size")] = field(
        name="bytes"
    )
    pretty: Annotated[str | None, Doc("the value as a size or a duration; null: it is neither")]
    problems: Annotated[list[ValueProblem], Doc("why the value cannot be meant")]
    notes: Annotated[list[str], Doc("what to know about the formula or the estimate")]


class EvaluationDocument(Document, tag="mrtuner.rds.evaluate/1"):
    """Written by `rdstune evaluate --json`.

    With `--all-classes` everything that depends on the machine is in `classes`.
    """

    formula: Annotated[str, Doc("as MrTuner writes it")]
    parameter: Annotated[str | None, Doc("the parameter; null without `--parameter`")]
    unit: Annotated[str | None, Doc("its base unit")]
    postgres: Annotated[int | None, Doc("the major version; null without `--parameter`")]
    engine: Annotated[str, Doc("postgres or aurora-postgresql")]
    class_name: Annotated[str | UnsetType | None, Doc("the instance class")] = field(
        name="class", default=UNSET
    )
    memory: Annotated[EvaluatedMemory | UnsetType | None, Doc("DBInstanceClassMemory")] = UNSET
    vcpus: Annotated[int | UnsetType | None, Doc("DBInstanceVCPU")] = UNSET
    storage: Annotated[int | UnsetType | None, Doc("AllocatedStorage [bytes]")] = UNSET
    value: Annotated[int | UnsetType, Doc("as in an evaluated class")] = UNSET
    low: Annotated[int | UnsetType, Doc("as in an evaluated class")] = UNSET
    high: Annotated[int | UnsetType, Doc("as in an evaluated class")] = UNSET
    size: Annotated[int | UnsetType | None, Doc("as in an evaluated class")] = field(
        name="bytes", default=UNSET
    )
    pretty: Annotated[str | UnsetType | None, Doc("as in an evaluated class")] = UNSET
    problems: Annotated[list[ValueProblem] | UnsetType, Doc("why it cannot be meant")] = UNSET
    notes: Annotated[list[str] | UnsetType, Doc("about the formula or the estimate")] = UNSET
    classes: Annotated[list[EvaluatedClass] | UnsetType, Doc("only with `--all-classes`")] = UNSET


def evaluation_document(
    found: Evaluation, major: int | None, engine: str, everywhere: Sequence[Evaluation] = ()
) -> EvaluationDocument:
    """Return what a formula gives on one machine, or `everywhere`: on every class."""
    classes = [_evaluated(one) for one in everywhere]
    rest = {"classes": classes} if classes else asdict(_evaluated(found))
    return EvaluationDocument(
        formula=found.formula,
        parameter=found.parameter,
        unit=found.unit,
        postgres=major,
        engine=engine,
        **rest,
    )


def _evaluated(found: Evaluation) -> EvaluatedClass:
    machine = found.machine
    return EvaluatedClass(
        class_name=machine.name,
        memory=convert(machine.memory, EvaluatedMemory) if machine.memory else None,
        vcpus=machine.vcpus,
        storage=machine.storage,
        value=found.value,
        low=found.low,
        high=found.high,
        size=found.size,
        pretty=found.pretty,
        problems=list(found.problems),
        notes=list(found.notes),
    )
