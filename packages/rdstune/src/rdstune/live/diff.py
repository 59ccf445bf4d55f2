"""A live instance: its group's texts, their values, what the server runs, and our advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mrtuner.aws import rds
from mrtuner.catalog.classes import InstanceClass
from mrtuner.change.settings.live import InForce, in_force
from mrtuner.facts import Missing
from mrtuner.formula.class_memory import TELLING, class_memory
from mrtuner.postgres.connect import connect
from rdstune.live.compare import (
    InstanceMachine,
    ParameterLine,
    ParameterVerdict,
    compare,
    differences,
    machine,
    measured,
)
from rdstune.live.incompatible_parameters import WhyDown, why_down
from rdstune.live.plan import overruled, same_value, user_values
from rdstune.live.target import Target

if TYPE_CHECKING:
    from mrtuner.aws.rows import GroupParameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Every parameter that the group or we set, and the machine behind it."""

    target: Target
    group: str
    machine: InstanceMachine
    lines: tuple[ParameterLine, ...]
    compared: bool = False  # with what the server runs
    notes: tuple[str, ...] = ()
    why_down: WhyDown | None = None  # what keeps an instance in incompatible-parameters

    @property
    def down(self) -> bool:
        """Whether an instance cannot start with its parameters."""
        return bool(self.target.incompatible)

    @property
    def differing(self) -> tuple[ParameterLine, ...]:
        """Where the server differs from the group and does not wait for a reboot."""
        return differences(self.lines)

    @property
    def waiting(self) -> tuple[ParameterLine, ...]:
        """What comes into force at the next reboot."""
        return tuple(line for line in self.lines if line.verdict is ParameterVerdict.WAITS)

    @property
    def to_do(self) -> bool:
        """Whether anything differs, waits, does not start, or should be changed."""
        return bool(self.differing or self.advised or self.waiting or self.down)

    @property
    def unjudged(self) -> tuple[Missing, ...]:
        """What the server runs, where it was not read: it may differ from the group."""
        if not self.compared:
            why = "the server was not asked what it runs"
            return (Missing("differences from the group", why, option="--connect DSN"),)
        return tuple(
            Missing(line.name, "its value in the group or on the server is not known")
            for line in self.lines
            if line.source == "user" and line.verdict is ParameterVerdict.UNKNOWN
        )

    @property
    def advised(self) -> tuple[ParameterLine, ...]:
        """What we would change."""
        return tuple(line for line in self.lines if line.advised is not None)


def diff(
    client: Any,
    target: Target,
    instance_class: InstanceClass,
    *,
    against: str | None = None,
    dsn: str | None = None,
    advised: Mapping[str, str] | None = None,
    newly: bool = False,
) -> Diff:
    """Compare a target's group, or the group `against`, with its server and with our advice.

    With a connection string the instance's memory is calibrated from its settings. `newly` is
    whether the group was attached since the last reboot: then all of it waits for one.
    """
    group = against or target.group
    parameters = rds.parameters(client, group, target.scope)
    rows = None if dsn is None else read_settings(dsn, [row.name for row in parameters])
    here = machine_of(client, target, instance_class, dsn)
    waiting = bool(target.waiting) and group == target.group
    lines = compare(parameters, here, rows, _changes(parameters, advised or {}), waiting, newly)
    names = [row.name for row in parameters]
    return Diff(
        target=target,
        group=group,
        machine=here,
        lines=lines,
        compared=rows is not None,
        notes=(*here.memory.notes, *overruled(client, target, names)),
        why_down=why_down(client, target, user_values(parameters), instance_class),
    )


def machine_of(
    client: Any, target: Target, known: InstanceClass, dsn: str | None = None
) -> InstanceMachine:
    """Return the target's machine; with a connection string, its memory comes from its settings."""
    found = machine(target.writer, class_memory(known, target.engine), known.vcpus)
    if dsn is None:
        return found
    attached = rds.parameters(client, target.group, target.scope)
    return replace(found, memory=measured(attached, read_settings(dsn, list(TELLING)), found))


def _changes(parameters: Sequence[GroupParameter], advised: Mapping[str, str]) -> dict[str, str]:
    """Return the advice that differs from the current values."""
    return {
        row.name: advised[row.name]
        for row in parameters
        if row.name in advised and not same_value(row, row.value, advised[row.name])
    }


def read_settings(dsn: str, names: Sequence[str]) -> dict[str, InForce]:
    """Return the server's pg_settings rows with these names, as a new session sees them."""
    with connect(dsn) as conn:
        return in_force(conn, names)
