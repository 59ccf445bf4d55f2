"""Compare a group's values on an instance with what its server runs.

A formula over memory gives a range as wide as the uncertainty of DBInstanceClassMemory. A server
that shows its settings narrows it to kilobytes first (`class_memory.calibrated`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from mrtuner.errors import BadValue
from mrtuner.formula import rds_formula
from mrtuner.formula.class_memory import TELLING, Estimate, calibrated
from mrtuner.formula.rds_formula import FormulaError, MissingMachine, is_formula, parse
from mrtuner.units import GiB

if TYPE_CHECKING:
    from mrtuner.aws.rows import GroupParameter, Instance
    from mrtuner.change.settings.live import InForce


class ParameterVerdict(StrEnum):
    """How a parameter's values in the group and on the server compare."""

    AGREES = "agrees"
    DIFFERS = "differs"
    WAITS = "waits for a reboot"
    FIXED = "set by RDS"  # unlike the group, where users cannot change it
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The integer, or the range, that a value gives in the parameter's base unit."""

    low: str
    high: str

    def __str__(self) -> str:
        return self.low if self.low == self.high else f"{self.low} to {self.high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterLine:
    """One parameter: the group's text, its value here, the running value, our advice."""

    name: str
    value: str | None  # the group's text
    source: str  # user, system, engine-default
    expected: Expected | None
    running: str | None = None  # pg_settings.setting, in base units
    unit: str | None = None
    verdict: ParameterVerdict = ParameterVerdict.UNKNOWN
    advised: str | None = None
    advised_gives: Expected | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceMachine:
    """One instance as formulas see it."""

    memory: Estimate
    vcpus: int
    storage: int  # bytes
    port: int

    def variables(self, memory: int) -> dict[str, int]:
        return rds_formula.machine_variables(memory, self.vcpus, self.storage, self.port)


def machine(instance: Instance, memory: Estimate, vcpus: int) -> InstanceMachine:
    return InstanceMachine(
        memory=memory,
        vcpus=vcpus,
        storage=instance.allocated_storage * GiB,
        port=instance.port or 5432,
    )


def expected(value: str | None, of: InstanceMachine) -> Expected | None:
    """Return what a group's value gives on a machine; None where that cannot be known."""
    if value is None:
        return None
    if not is_formula(value):
        return Expected(low=value.strip(), high=value.strip())
    try:
        formula = parse(value)
        ends = [formula.evaluate(of.variables(size)) for size in (of.memory.low, of.memory.high)]
    except (FormulaError, MissingMachine):
        return None
    return Expected(low=str(min(ends)), high=str(max(ends)))


def formula_gives(value: str, of: InstanceMachine | None) -> str | None:
    """Return what a formula gives on a machine, ``?`` if that cannot be known.

    None for a literal, and where nothing is known of the machine.
    """
    if of is None or not is_formula(value):
        return None
    return str(expected(value, of) or "?")


def measured(
    parameters: Iterable[GroupParameter], rows: Mapping[str, InForce], of: InstanceMachine
) -> Estimate:
    """Return the instance's memory as its settings show it, else the class's estimate.

    A parameter that waits for a restart does not count.
    """
    formulas = {
        row.name: row.value
        for row in parameters
        if row.name in TELLING and row.value and is_formula(row.value)
    }
    values = {
        name: int(rows[name].setting)
        for name in formulas
        if name in rows and not rows[name].pending_restart and rows[name].setting.isdigit()
    }
    try:
        return calibrated(values, formulas, machine=of.variables(0), within=of.memory)
    except BadValue:
        return of.memory


def compare(
    parameters: Iterable[GroupParameter],
    of: InstanceMachine,
    rows: Mapping[str, InForce] | None = None,
    advised: Mapping[str, str] | None = None,
    waiting: bool = False,
    newly: bool = False,
) -> tuple[ParameterLine, ...]:
    """Return a line for each parameter that the group sets or that we advise.

    `rows` is the server's pg_settings; `waiting` is whether the instance waits for a reboot,
    `newly` whether it waits because the group was newly attached: then dynamic parameters wait too.
    """
    advised = advised or {}

    def waits(row: GroupParameter) -> bool:
        return waiting and (newly or row.apply_type == "static")

    return tuple(
        _line(row, of, (rows or {}).get(row.name), advised.get(row.name), waits(row))
        for row in parameters
        if row.value is not None or row.name in advised
    )


def _line(
    row: GroupParameter,
    of: InstanceMachine,
    live: InForce | None,
    advised: str | None,
    waiting: bool,
) -> ParameterLine:
    wanted = expected(row.value, of)
    return ParameterLine(
        name=row.name,
        value=row.value,
        source=row.source,
        expected=wanted,
        running=live.setting if live else None,
        unit=live.unit if live else None,
        verdict=_verdict(wanted, live, waiting) if row.modifiable else _fixed(wanted, live),
        advised=advised,
        advised_gives=expected(advised, of),
    )


def _verdict(wanted: Expected | None, live: InForce | None, waiting: bool) -> ParameterVerdict:
    if wanted is None or live is None or live.hidden:
        return ParameterVerdict.UNKNOWN
    if _within(wanted, live):
        return ParameterVerdict.AGREES
    return ParameterVerdict.WAITS if waiting or live.pending_restart else ParameterVerdict.DIFFERS


def _fixed(wanted: Expected | None, live: InForce | None) -> ParameterVerdict:
    """Compare a parameter that only RDS sets: users cannot fix a difference."""
    found = _verdict(wanted, live, waiting=False)
    return (
        found
        if found in {ParameterVerdict.AGREES, ParameterVerdict.UNKNOWN}
        else ParameterVerdict.FIXED
    )


def _within(wanted: Expected, live: InForce) -> bool:
    if wanted.low == wanted.high:
        return live.gives(wanted.low) or _spelled(wanted.low) == _spelled(live.setting)
    try:
        return int(wanted.low) <= int(live.setting) <= int(wanted.high)
    except ValueError:
        return False


_WORDS: Final = {"on": "1", "true": "1", "yes": "1", "off": "0", "false": "0", "no": "0"}


def _spelled(text: str) -> str:
    """Normalize 1 and on, and lists with and without spaces."""
    lower = text.strip().lower()
    return _WORDS.get(lower, ",".join(part.strip() for part in lower.split(",")))


def differences(lines: Sequence[ParameterLine]) -> tuple[ParameterLine, ...]:
    """Return the lines where the server does not run what the group says."""
    return tuple(line for line in lines if line.verdict is ParameterVerdict.DIFFERS)
