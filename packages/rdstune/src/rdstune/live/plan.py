"""What an apply would change in a parameter group: only what differs, and how.

`steps` is pure: it takes a group's parameters and the wanted settings. `make` reads the current
state and chooses the group: never a default one, always of the right family. It also lists who
else uses the group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from mrtuner.aws import rds
from mrtuner.aws.calls import unless_missing
from mrtuner.catalog.families import FamilyParameter
from mrtuner.change.settings.plan import LeftAlone, refuse_doubles
from mrtuner.errors import BadValue, Refused
from mrtuner.formula.rds_formula import FormulaError, is_formula, parse
from rdstune.formats.group import checked_name
from rdstune.live.target import Target, overruling, users

if TYPE_CHECKING:
    from mrtuner.aws.rows import ApplyMethod, GroupParameter, ParameterGroup

_TRUE: Final = frozenset({"1", "on", "true", "yes"})
_FALSE: Final = frozenset({"0", "off", "false", "no"})


class Wanted(Protocol):
    """A wanted setting: its value is a literal in the base unit, or a formula."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def reason(self) -> str: ...


@dataclass(frozen=True, slots=True)
class WantedValue:
    """A wanted setting that no rule gave."""

    name: str
    value: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterStep:
    """One parameter to set."""

    name: str
    value: str
    before: str | None  # the user-set value; None: the family's default is in force
    shown: str | None  # the group's current text, which may be the default
    static: bool
    reason: str = ""

    @property
    def method(self) -> ApplyMethod:
        """The ApplyMethod: `immediate` for dynamic parameters, else `pending-reboot`."""
        return "pending-reboot" if self.static else "immediate"


@dataclass(frozen=True, slots=True, kw_only=True)
class RdsPlan:
    """What an apply would do to one parameter group."""

    target: Target
    group: str
    family: str
    steps: tuple[ParameterStep, ...]
    left_alone: tuple[LeftAlone, ...] = ()
    creates: bool = False
    user_values: Mapping[str, str] = field(default_factory=dict)  # in the group when planned
    attached_values: Mapping[str, str] = field(default_factory=dict)  # in the group attached then
    #: Where another existing group gets attached: its text and that of the attached one, by name.
    differ: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    shared: tuple[str, ...] = ()  # others that use the group
    warnings: tuple[str, ...] = ()

    @property
    def attaches(self) -> bool:
        """Whether a different group gets attached to the instance or cluster."""
        return self.group != self.target.group

    @property
    def nothing(self) -> bool:
        return not self.steps and not self.attaches

    @property
    def reboot(self) -> tuple[str, ...]:
        """The parameters that wait for a reboot: all of them if the group is newly attached."""
        return tuple(step.name for step in self.steps if step.static or self.attaches)


# Pure functions.


def steps(
    current: Iterable[GroupParameter], wanted: Sequence[Wanted]
) -> tuple[tuple[ParameterStep, ...], tuple[LeftAlone, ...]]:
    """Return the steps, static parameters first, and what is left alone.

    Static ones go first because they wait for a reboot: if an early batch is refused, nothing has
    come into force. BadValue when a parameter is wanted twice or its formula is invalid.
    """
    rows = {row.name: row for row in current}
    refuse_doubles(one.name for one in wanted)
    left: list[LeftAlone] = []
    found: list[ParameterStep] = []
    for one in wanted:
        row = rows.get(one.name)
        why = _why_left_alone(row)
        if why or row is None:
            left.append(LeftAlone(name=one.name, value=one.value, why=why))
        elif not same_value(row, row.value, one.value):
            found.append(_step(row, one))
    return tuple(sorted(found, key=lambda step: not step.static)), tuple(left)


def _why_left_alone(row: GroupParameter | None) -> str:
    if row is None:
        return "the family has no such parameter"
    if not row.modifiable:
        return "RDS does not allow changing it"
    return ""


def _step(row: GroupParameter, one: Wanted) -> ParameterStep:
    _require_readable(row, one)
    return ParameterStep(
        name=row.name,
        # As RDS returns it, or it would look like somebody else's when it is compared.
        value=one.value if is_formula(one.value) else _known(row).stored(one.value),
        before=row.value if row.source == "user" else None,
        shown=row.value,
        static=row.apply_type == "static",
        reason=one.reason,
    )


def _require_readable(row: GroupParameter, one: Wanted) -> None:
    """Refuse a value for which RDS would reject the whole batch without naming the parameter."""
    if not is_formula(one.value):
        _known(row).check(one.value)
        return
    try:
        parse(one.value)
    except FormulaError as error:
        raise FormulaError(f"{one.name}: {error.message}", error.hint) from None


def _known(row: GroupParameter) -> FamilyParameter:
    return FamilyParameter(
        name=row.name,
        data_type=row.data_type,
        apply_type="static" if row.apply_type == "static" else "dynamic",
        modifiable=row.modifiable,
        allowed=row.allowed,
        default=None,
        evidence="the group itself",
    )


def same_value(row: GroupParameter, a: str | None, b: str | None) -> bool:
    """Whether two texts mean the same for a parameter: spellings of a formula, or on and 1."""
    if a is None or b is None:
        return a == b
    return _canonical(row, a) == _canonical(row, b)


def _canonical(row: GroupParameter, text: str) -> str:
    text = text.strip()
    if is_formula(text):
        try:
            return str(parse(text))
        except FormulaError:
            return text
    lower = text.lower()
    if row.data_type == "boolean" or row.allowed in {"0,1", "on,off"}:
        return "1" if lower in _TRUE else "0" if lower in _FALSE else lower
    return lower if row.data_type in {"boolean", "integer", "float"} else text


def differing(
    group: Iterable[GroupParameter], other: Iterable[GroupParameter]
) -> dict[str, tuple[str | None, str | None]]:
    """Return the texts of one group and of another, by the names for which they mean different."""
    there = {row.name: row for row in other}
    return {
        row.name: (row.value, there[row.name].value)
        for row in group
        if row.name in there and not same_value(row, row.value, there[row.name].value)
    }


def user_values(parameters: Iterable[GroupParameter]) -> dict[str, str]:
    """Return the user-set values of a group: this is exactly what an undo restores."""
    return {
        row.name: row.value for row in parameters if row.source == "user" and row.value is not None
    }


def group_name(name: str) -> str:
    """Return a custom group's name as RDS stores it.

    Raises Refused for default groups, BadValue for other invalid names.
    """
    name = name.lower()
    if name.startswith("default."):
        raise Refused(
            f"{name} is a default group, which cannot be changed",
            "Choose another one with --group; it is created if it does not exist.",
        )
    return checked_name(name)


# Reading the current state.


def make(
    client: Any, target: Target, wanted: Sequence[Wanted], group: str | None = None
) -> RdsPlan:
    """Return the plan for a target. `group` names the group to use; it is created if missing.

    By default the attached group is used, or, if that is a default one, a group of our own.
    Only reads. Raises Refused for default groups, BadValue for one of another family.
    """
    name = _chosen(target, group)
    found = unless_missing(lambda: rds.group(client, name, target.scope))
    if found is None:
        return _plan_new(client, target, name, wanted)
    if found.family != target.family:
        raise BadValue(
            f"group {name} is of family {found.family}, but {target} needs {target.family}",
            "Choose another group with --group; it is created if it does not exist.",
        )
    return _plan_existing(client, target, found, wanted)


def _chosen(target: Target, group: str | None) -> str:
    if group is not None:
        return group_name(group)
    if not target.group.startswith("default."):
        return target.group
    return f"mrtuner-{target.identifier}"[:255].rstrip("-")  # which is created


def _plan_existing(
    client: Any, target: Target, group: ParameterGroup, wanted: Sequence[Wanted]
) -> RdsPlan:
    parameters = rds.parameters(client, group.name, target.scope)
    todo, left = steps(parameters, wanted)
    values = user_values(parameters)
    had, differ = values, dict[str, tuple[str | None, str | None]]()
    if group.name != target.group:
        attached = rds.parameters(client, target.group, target.scope)
        had = user_values(attached)
        differ = differing(parameters, attached)
    return RdsPlan(
        target=target,
        group=group.name,
        family=group.family,
        steps=todo,
        left_alone=left,
        user_values=values,
        attached_values=had,
        differ=differ,
        shared=_others(client, target, group.name),
        warnings=(
            *_lost(target, group.name, had, values),
            *_replaced(target, group.name, values, differ, {step.name for step in todo}),
            *overruled(client, target, [step.name for step in todo]),
        ),
    )


def _plan_new(client: Any, target: Target, name: str, wanted: Sequence[Wanted]) -> RdsPlan:
    """Plan a new group, which takes over the user-set values of the attached one."""
    attached = rds.parameters(client, target.group, target.scope)
    had = user_values(attached)
    carried = [
        WantedValue(key, value, f"as in {target.group}")
        for key, value in had.items()
        if key not in {one.name for one in wanted}
    ]
    defaults = [
        replace(row, value=None, source="engine-default") if row.source == "user" else row
        for row in attached
    ]
    todo, left = steps(defaults, [*wanted, *carried])
    if not steps(attached, wanted)[0]:
        todo, name = (), target.group  # nothing to change: no group is needed
    return RdsPlan(
        target=target,
        group=name,
        family=target.family,
        steps=todo,
        left_alone=left,
        attached_values=had,
        creates=name != target.group,
        warnings=overruled(client, target, [step.name for step in todo]),
    )


def _others(client: Any, target: Target, group: str) -> tuple[str, ...]:
    found = users(client, group, target.scope)
    return tuple(name for name in found if name != target.identifier)


def _lost(
    target: Target, group: str, had: Mapping[str, str], values: Mapping[str, str]
) -> tuple[str, ...]:
    """Return a warning of values that the attached group sets and the existing `group` does not."""
    lost = sorted(had.keys() - values.keys())
    if not lost:
        return ()
    return (f"{group} lacks values that {target.group} sets: {', '.join(lost)}",)


def _replaced(
    target: Target, group: str, values: Mapping[str, str],
    differ: Mapping[str, tuple[str | None, str | None]], steps: Collection[str],
) -> tuple[str, ...]:  # fmt: skip
    """Return a warning of what the existing `group` sets otherwise, and no step changes."""
    others = [
        f"{name} = {now} instead of {before or 'the default'}"
        for name, (now, before) in sorted(differ.items())
        if name in values and name not in steps
    ]  # fmt: skip
    return (f"{group} differs from {target.group}: {', '.join(others)}",) if others else ()


def overruled(client: Any, target: Target, names: Sequence[str]) -> tuple[str, ...]:
    """Return warnings of members' own groups that override these parameters of the cluster."""
    return tuple(
        f"the instance group of {one.identifier} overrides {', '.join(both)}"
        for one in target.members
        if (both := sorted(set(names) & overruling(client, target, one).keys()))
    )
