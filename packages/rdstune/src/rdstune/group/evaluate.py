"""Evaluate a formula: its integer value, its size, its bounds, and whether it is plausible.

>>> from mrtuner.catalog import parameter
>>> from mrtuner.formula.class_memory import given
>>> from mrtuner.units import Bytes, GiB
>>> found = evaluate(
...     "{DBInstanceClassMemory/4}", Machine(memory=given(Bytes(16 * GiB))),
...     parameter=parameter("shared_buffers", 17),
... )
>>> [problem.code for problem in found.problems]
['out-of-range', 'absurd']
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Final, Literal

from mrtuner.described import Doc
from mrtuner.errors import BadValue
from mrtuner.formula.class_memory import VARIABLE, Estimate
from mrtuner.formula.rds_formula import VARIABLES, Formula, Integer, braces, parse
from mrtuner.units import Bytes, memory_unit, pretty_bytes
from rdstune.lint.suggestions import factor

if TYPE_CHECKING:
    from mrtuner.catalog import Parameter
    from mrtuner.catalog.families import Family

#: Sizes of memory; other sizes (max_wal_size, temp_file_limit) are of storage and may be larger.
_OF_MEMORY: Final = frozenset({
    "effective_cache_size", "gin_pending_list_limit", "min_dynamic_shared_memory",
    "vacuum_buffer_usage_limit",
})  # fmt: skip
#: No plausible value exceeds this share of memory; with more shared memory RDS does not start.
MOST_MEANT: Final = Fraction(9, 10)
_OF_MEMORY_TOO: Final = ("_mem", "_buffers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The variables that a formula may use, as far as they are known."""

    memory: Estimate | None = None  # DBInstanceClassMemory
    vcpus: int | None = None
    storage: Bytes | None = None  # AllocatedStorage
    port: int | None = None
    name: str | None = None  # the instance class

    def facts(self, memory: int | None) -> dict[str, int]:
        known = zip(VARIABLES, (memory, self.vcpus, self.storage, self.port), strict=True)
        return {name: value for name, value in known if value is not None}


ProblemCode = Literal["not-settable", "takes-no-formula", "out-of-range", "not-allowed", "absurd"]


@dataclass(frozen=True, slots=True)
class ValueProblem:
    """Why a value is not valid, or not plausible."""

    code: Annotated[
        ProblemCode, Doc("`out-of-range`: of the server's bounds; `not-allowed`: of RDS's own")
    ]
    text: Annotated[str, Doc("a sentence")]
    hint: Annotated[str | None, Doc("what to do")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The result of a formula on one machine. Values are in the parameter's base unit."""

    formula: str  # in canonical form
    parameter: str | None
    unit: str | None  # 8kB, kB, MB, ms, …
    machine: Machine
    value: int
    low: int  # over the range of the memory estimate
    high: int
    pretty: str | None  # the value as a size or a duration, for people
    between: tuple[str, str] | None  # low and high in the same form
    problems: tuple[ValueProblem, ...]
    notes: tuple[str, ...]

    @property
    def size(self) -> Bytes | None:
        """The value in bytes; None where it is not a size or is special (-1)."""
        return _size(self.value, self.unit)


def evaluate(
    formula: str,
    machine: Machine,
    *,
    parameter: Parameter | None = None,
    family: Family | None = None,
) -> Evaluation:
    """Evaluate a formula, or a plain integer, on a machine, optionally as a parameter's value.

    With a family, also check what RDS accepts in a group of that family.
    Raises FormulaError for text that is not a formula, MissingMachine where it uses an unknown
    variable.
    """
    parsed = parse(formula)
    low, value, high = _over_the_band(parsed, machine)
    return Evaluation(
        formula=str(parsed),
        parameter=parameter.name if parameter else None,
        unit=parameter.unit if parameter else None,
        machine=machine,
        value=value,
        low=low,
        high=high,
        pretty=_pretty(value, parameter),
        between=_between(low, high, parameter),
        problems=tuple(_problems(parsed, (value, low, high), machine, parameter, family)),
        notes=tuple(_notes(parsed, machine)),
    )


def _over_the_band(formula: Formula, machine: Machine) -> tuple[int, int, int]:
    """Return the lowest, the likely and the highest value."""
    memory = machine.memory
    sizes = (memory.low, memory.value, memory.high) if memory else (None,) * 3
    values = [formula.evaluate(machine.facts(size)) for size in sizes]
    return min(values), values[1], max(values)


def _size(value: int, unit: str | None) -> Bytes | None:
    factor = memory_unit(unit) if unit else None
    return None if factor is None or value < 0 else Bytes(value * factor)


def _pretty(value: int, parameter: Parameter | None) -> str | None:
    if parameter is None or parameter.unit is None:
        return None
    size = _size(value, parameter.unit)
    if size is not None:
        return pretty_bytes(size)
    return parameter.show(value) if parameter.vartype == "integer" else None


def _between(low: int, high: int, parameter: Parameter | None) -> tuple[str, str] | None:
    least, largest = _pretty(low, parameter), _pretty(high, parameter)
    return None if least is None or largest is None else (least, largest)


def _problems(
    formula: Formula,
    values: tuple[int, int, int],
    machine: Machine,
    parameter: Parameter | None,
    family: Family | None,
) -> Iterator[ValueProblem]:
    if parameter is None:
        return
    refusal = family.refusal(parameter.name) if family else None
    if refusal is not None:
        yield ValueProblem("not-settable", refusal)
    elif isinstance(formula, Integer) or takes_formulas(parameter):
        yield from _bounds(values, parameter, family)
        yield from _sense(formula, values[0], machine, parameter)
    else:
        yield ValueProblem(
            "takes-no-formula",
            f"{parameter.name} is of type {parameter.vartype} and does not allow formulas",
            "RDS evaluates formulas only for integer and Boolean parameters: use a plain value.",
        )


def takes_formulas(parameter: Parameter) -> bool:
    """Whether it is integer or Boolean; wal_compression, now an enum, still accepts on and off."""
    return parameter.vartype in {"integer", "bool"} or {"on", "off"} <= set(parameter.enum)


def _bounds(
    values: tuple[int, ...], parameter: Parameter, family: Family | None
) -> Iterator[ValueProblem]:
    """Yield the problem of the first value that the server, or else RDS, would refuse."""
    for value in values:
        found = _out_of_range(value, parameter) or _not_allowed(value, parameter, family)
        if found is not None:
            yield found
            return


def _out_of_range(value: int, parameter: Parameter) -> ValueProblem | None:
    whole = parameter.vartype == "integer"
    try:
        parameter.check(value if whole else parameter.parse(str(value)))
    except BadValue as error:
        return ValueProblem("out-of-range", error.message, error.hint)
    return None


def _not_allowed(value: int, parameter: Parameter, family: Family | None) -> ValueProblem | None:
    """Check RDS's bounds, which apply to integers; words such as on and off vary in spelling."""
    if family is None or parameter.vartype != "integer":
        return None
    try:
        family.parameter(parameter.name).check(str(value))
    except BadValue as error:
        return ValueProblem("not-allowed", error.message, error.hint)
    return None


def is_memory(parameter: Parameter) -> bool:
    """Whether it is an amount of memory, which cannot exceed the machine's."""
    return parameter.name in _OF_MEMORY or parameter.name.endswith(_OF_MEMORY_TOO)


def _sense(
    formula: Formula, value: int, machine: Machine, parameter: Parameter
) -> Iterator[ValueProblem]:
    """Yield a problem if an amount of memory exceeds the machine's memory."""
    size, memory = _size(value, parameter.unit), machine.memory
    if not is_memory(parameter) or size is None or memory is None or size <= memory.value:
        return
    times = size / memory.value
    count = f"{times:,.0f}" if times >= 10 else f"{times:.1f}"
    text = f"{parameter.name} would be {pretty_bytes(size)}, {count} times the memory"
    unit = memory_unit(parameter.unit or "") or 1
    if unit == 1 or value > memory.value:
        yield ValueProblem("absurd", text)
    else:
        hint = f"Its unit is {parameter.unit}{_in_unit(formula, unit)}."
        yield ValueProblem("absurd", f"{text}: is the formula in bytes?", hint)


def _in_unit(formula: Formula, unit: int) -> str:
    """Return a hint with the formula in base units, for one in bytes; empty if there is none."""
    variable, share = factor(formula) or ("", Fraction(0))
    meant = formula.documented and variable == VARIABLE and 0 < share <= MOST_MEANT
    return f": write {braces(VARIABLE, share / unit)}" if meant else ""


def _notes(formula: Formula, machine: Machine) -> Iterator[str]:
    if not formula.documented:
        yield (
            "AWS documents {V}, {V*I}, {V*I/I} and {V/I}; other forms appear only in its own "
            "defaults"
        )
    if "log(" in str(formula):
        yield "log is taken as base 2, rounded to the nearest integer: inferred, not documented"
    if VARIABLE in formula.variables and machine.memory is not None:
        yield from machine.memory.notes
