"""The answer: one explained value for each parameter, and the memory budget they fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from mrtuner.catalog import Parameter
from mrtuner.described import Doc, document_name
from mrtuner.facts import Missing
from mrtuner.findings import Finding
from mrtuner.formats import Line, for_containers, render
from mrtuner.formula.expression import Constant, Expr
from mrtuner.tuning.budget import Budget
from mrtuner.tuning.situation import Situation
from mrtuner.tuning.verdict import Basis, Change, Keep, Rule, Unknown, Value, Verdict
from mrtuner.units import MiB, memory_unit, pretty_bytes
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.host.model import Host
    from mrtuner.postgres.model import Server


class Level(StrEnum):
    """How much a notice matters. Danger: data or service can be lost with what is in force."""

    INFO = "info"
    WARNING = "warning"
    DANGER = "danger"


@document_name("NoticeText")
@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth knowing besides the values."""

    level: Annotated[Level, Doc("info, warning or danger")]
    text: Annotated[str, Doc("a sentence")]


@dataclass(frozen=True, slots=True)
class ManualStep:
    """A step that only a person can take."""

    purpose: Annotated[str, Doc("what it is for")]
    commands: Annotated[tuple[str, ...], Doc("the commands to run")]
    now: Annotated[str, Doc("the present value; empty if it was not seen")] = ""
    risk: Annotated[str, Doc("what can go wrong")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleMemory:
    """A work_mem for one role, which `mrtuner apply --roles` sets."""

    role: str
    value: str  # 132MB
    spilt: str  # the evidence, as the end of a sentence about the role

    @property
    def gain(self) -> str:
        return (
            f"with {self.value} of work_mem such a sort takes one merge pass, and the budget has "
            "room for it in the sessions that the role has open; time it in one session first"
        )


@dataclass(frozen=True, slots=True)
class Input:
    """One input of the tuning."""

    name: Annotated[str, Doc("such as memory")]
    value: Annotated[str, Doc("as text")]
    source: Annotated[str, Doc("where it came from")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One parameter: what it is, what it should be, and why."""

    rule: Rule
    parameter: Parameter
    verdict: Verdict
    now: Value | None  # in force, or the version's default for a described machine
    origin: str  # where `now` comes from: "default", "file", "postgresql.auto.conf", …
    target: Value | None  # in force afterwards
    scales: Expr | None  # what `target` was computed from: sizes in bytes, counts as they are
    asked: Expr | None = None  # as `scales`, but also if the value in force was near enough to keep
    described: bool = False  # for a described machine: `now` is the default, not what is in force
    shown: bool = False  # a measurement that covers this machine shows it

    @property
    def name(self) -> str:
        return self.parameter.name

    @property
    def value(self) -> str:
        """The advised value, as configuration text: ``4GB``."""
        return self._show(self.target)

    @property
    def current(self) -> str:
        """The present value, as configuration text."""
        return self._show(self.now)

    @property
    def changes(self) -> bool:
        return isinstance(self.verdict, Change) and not self.rule.suggestion

    @property
    def written(self) -> bool:
        """Whether files and statements include it: changes, and what other values build on.

        The budget of a described machine is based on its max_connections, and the server that gets
        the file may not have the default.
        """
        return self.changes or (
            self.described and self.rule.always and not isinstance(self.verdict, Unknown)
        )

    @property
    def suggested(self) -> bool:
        """Advice for people: shown, never emitted or applied."""
        return isinstance(self.verdict, Change) and self.rule.suggestion

    @property
    def reason(self) -> str:
        return self.verdict.because

    @property
    def unit(self) -> int | None:
        """Bytes in the parameter's base unit; None if it is not a size."""
        return memory_unit(self.parameter.unit) if self.parameter.unit else None

    @property
    def expression(self) -> Expr | None:
        """The value in terms of the machine, in base units, as a parameter group needs it.

        On a given machine it may be slightly above `target`, which is rounded down for readability.
        """
        return self.scales.in_unit(self.unit) if self.scales and self.unit else self.scales

    @property
    def formula(self) -> str | None:
        """The expression in words, sizes written as ``8 MB``; None for a constant."""
        if isinstance(self.verdict, Change) and self.verdict.formula:
            return self.verdict.formula
        if self.scales is None or isinstance(self.scales, Constant):
            return None
        return self.scales.prose(pretty_bytes if self.unit else _count)

    @property
    def basis(self) -> Basis:
        """Whether the value was observed here, measured elsewhere, computed, or is convention."""
        own = self.verdict.basis if isinstance(self.verdict, Change) else None
        return own or (Basis.MEASURED if self.shown else self.rule.basis)

    def _show(self, value: Value | None) -> str:
        return "" if value is None else self.parameter.show(value)

    def to_dict(self) -> dict[str, Any]:
        from mrtuner.documents import as_builtins
        from mrtuner.tuning.document import entry

        return as_builtins(entry(self))


def _count(number: int) -> str:
    return pretty_bytes(number) if number % MiB == 0 else str(number)


def _line(advice: Advice, value: str, condition: str = "") -> Line:
    return Line(
        name=advice.name,
        value=value,
        quoted=advice.parameter.vartype == "string",
        comment=advice.reason,
        restart=advice.parameter.restart,
        condition=condition,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What a crash may cost: the most WAL to replay, and the seconds it takes at two rates."""

    wal: int  # bytes
    fast: float
    slow: float
    how: str
    pace: str  # the evidence for the two rates


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning(Mapping[str, Advice]):
    """The result of `tune`, by parameter name; every interface uses this object."""

    situation: Situation
    given: tuple[Input, ...]
    advice: Mapping[str, Advice]
    budget: Budget | None
    budget_now: Budget | None  # with the settings in force; None unless a live server was read
    recovery: Recovery | None
    notices: tuple[Notice, ...]
    steps: tuple[ManualStep, ...]
    missing: tuple[Missing, ...]
    findings: tuple[Finding, ...] = ()  # dangers of a running server, as `mrtuner check` has them
    roles: tuple[RoleMemory, ...] = ()  # roles that spill, and are to have a work_mem of their own
    server: Server | None = None
    host: Host | None = None

    def __getitem__(self, name: str) -> Advice:
        return self.advice[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.advice)

    def __len__(self) -> int:
        return len(self.advice)

    @property
    def changes(self) -> list[Advice]:
        """The parameters to change, in the order they were decided."""
        return [item for item in self.advice.values() if item.changes]

    @property
    def dangers(self) -> list[Notice]:
        """What can go wrong with the settings in force."""
        return [notice for notice in self.notices if notice.level is Level.DANGER]

    @property
    def title(self) -> str:
        """One line naming the version and machine."""
        memory = pretty_bytes(self.situation.memory.size) if self.situation.memory else "?"
        cpus = plural(self.situation.cpus.count, "CPU") if self.situation.cpus else "? CPUs"
        storage = self.situation.storage or "?"
        return (
            f"PostgreSQL {self.situation.major}, {memory} memory, {cpus}, "
            f"storage {storage}, workload {self.situation.workload}"
        )

    def lines(self) -> list[Line]:
        """The lines that files and statements contain, for `render`."""
        return [_line(item, item.value) for item in self.advice.values() if item.written]

    def offers(self) -> list[Line]:
        """Settings that apply under a condition that could not be checked."""
        return [
            _line(item, item.verdict.offer.value, item.verdict.offer.condition)
            for item in self.advice.values()
            if isinstance(item.verdict, Keep) and item.verdict.offer
        ]

    @property
    def assumed(self) -> str | None:
        """The assumption made about a volume of unknown size; None if there is none."""
        situation = self.situation
        disk = situation.disk.size if situation.disk else None
        wal_disk = situation.wal_disk.size if situation.wal_disk else None
        if disk or wal_disk or not isinstance(self.advice["max_wal_size"].verdict, Change):
            return None
        return (
            f"Assumed: the volume has room for {self.advice['max_wal_size'].value} of WAL "
            "beside the data; give its size with --disk, or that of a separate WAL volume "
            "with --wal-disk"
        )

    def as_(self, format: str) -> str:
        """The settings to change, in one of `mrtuner.formats.NAMES`, or ``json``."""
        if format == "json":
            import json

            return json.dumps(self.to_dict(), indent=2) + "\n"
        title = self.title
        if for_containers(format) and self.assumed:
            title += f". {self.assumed}"
        return render(format, [*self.lines(), *self.offers()], title=title)

    def as_conf(self) -> str:
        """An include file for postgresql.conf, with the reasons as comments."""
        return self.as_("conf")

    def as_sql(self) -> str:
        """ALTER SYSTEM statements and a reload."""
        return self.as_("sql")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for --json, as `mrtuner.tuning.document` describes it."""
        from mrtuner.documents import as_builtins
        from mrtuner.tuning.document import tune_document

        return as_builtins(tune_document(self))
