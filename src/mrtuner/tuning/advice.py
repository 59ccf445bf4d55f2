"""The answer: one explained value for each parameter, with the budget that holds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from mrtuner.catalog import Parameter
from mrtuner.facts import Missing
from mrtuner.formats import Line, for_containers, render
from mrtuner.formula.expression import Constant, Expr
from mrtuner.tuning.budget import Budget
from mrtuner.tuning.situation import Situation
from mrtuner.tuning.verdict import Basis, Change, Keep, Rule, Unknown, Value, Verdict
from mrtuner.units import MiB, memory_unit, pretty_bytes

if TYPE_CHECKING:
    from mrtuner.host.model import Host
    from mrtuner.postgres.model import Server

SCHEMA: Final = "mrtuner.tune/1"


class Level(StrEnum):
    """How much a notice matters."""

    INFO = "info"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to know beside the values."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """Something only a person can do, with the commands for it."""

    purpose: str
    commands: tuple[str, ...]
    now: str = ""  # the value now, where it was seen
    risk: str = ""  # what may go wrong


@dataclass(frozen=True, slots=True)
class Given:
    """One input of the tuning and where it came from."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One parameter: what it is, what it should be, and why."""

    rule: Rule
    parameter: Parameter
    verdict: Verdict
    now: Value | None  # in force, or the version's default for a described machine
    origin: str  # where `now` comes from: "default", "file", "postgresql.auto.conf", …
    target: Value | None  # in force afterwards
    scales: Expr | None  # what `target` was worked out from: sizes in bytes, counts as they are
    asked: Expr | None = None  # the same, kept where the value in force was near enough
    described: bool = False  # of a described machine: `now` is the default, not what is in force

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self.parameter.name

    @property
    def value(self) -> str:
        """What the parameter should be, as configuration text: ``4GB``."""
        return self._show(self.target)

    @property
    def current(self) -> str:
        """What it is now, as configuration text."""
        return self._show(self.now)

    @property
    def changes(self) -> bool:
        """Whether something is to be done (a suggestion is not)."""
        return isinstance(self.verdict, Change) and not self.rule.suggestion

    @property
    def written(self) -> bool:
        """Whether files and statements carry it: a change, or what the others are built on.

        The budget of a described machine rests on its max_connections, and the server that gets
        the file may have another one than the default.
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
        """One sentence."""
        return self.verdict.because

    @property
    def unit(self) -> int | None:
        """Bytes in the parameter's base unit; None where it is no size."""
        return memory_unit(self.parameter.unit) if self.parameter.unit else None

    @property
    def expression(self) -> Expr | None:
        """The value over the machine in the parameter's base unit, as a parameter group needs it.

        On one machine it may be a little above `target`, which is rounded down for people.
        """
        return self.scales.in_unit(self.unit) if self.scales and self.unit else self.scales

    @property
    def formula(self) -> str | None:
        """The same in words, sizes in bytes; None for a constant."""
        if isinstance(self.verdict, Change) and self.verdict.formula:
            return self.verdict.formula
        if self.scales is None or isinstance(self.scales, Constant):
            return None
        return self.scales.prose(pretty_bytes if self.unit else _count)

    @property
    def basis(self) -> Basis:
        """Measured, arithmetic or convention."""
        own = self.verdict.basis if isinstance(self.verdict, Change) else None
        return own or self.rule.basis

    def _show(self, value: Value | None) -> str:
        return "" if value is None else self.parameter.show(value)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for --json."""
        return {
            "name": self.name,
            "area": self.rule.area,
            "verdict": type(self.verdict).__name__.lower(),
            "now": self.current,
            "origin": self.origin,
            "value": self.value,
            "unit": self.parameter.unit,
            "suggestion": self.rule.suggestion,
            "written": self.written,
            "reason": self.reason,
            "formula": self.formula,
            "basis": str(self.basis),
            "source": self.rule.source,
            "risk": self.rule.risk,
            "restart": self.parameter.restart,
        }


def _count(number: int) -> str:
    return pretty_bytes(number) if number % MiB == 0 else str(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """How long a crash may cost: WAL to replay at worst, and seconds at two rates."""

    wal: int  # bytes
    fast: float
    slow: float
    how: str
    pace: str  # on what the two rates rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning(Mapping[str, Advice]):
    """The result of `tune`, by parameter name; the same object behind every face."""

    situation: Situation
    given: tuple[Given, ...]
    advice: Mapping[str, Advice]
    budget: Budget | None
    recovery: Recovery | None
    notices: tuple[Notice, ...]
    steps: tuple[Step, ...]
    missing: tuple[Missing, ...]
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
        """What is to be set, in the order of decision."""
        return [item for item in self.advice.values() if item.changes]

    @property
    def title(self) -> str:
        """One line: for which version and machine this is."""
        memory = pretty_bytes(self.situation.memory.size) if self.situation.memory else "?"
        cpus = self.situation.cpus.count if self.situation.cpus else "?"
        storage = self.situation.storage or "?"
        return (
            f"PostgreSQL {self.situation.major}, {memory} memory, {cpus} CPUs, "
            f"storage {storage}, workload {self.situation.workload}"
        )

    def lines(self) -> list[Line]:
        """What files and statements carry, for `render`."""
        return [
            Line(
                name=item.name,
                value=item.value,
                quoted=item.parameter.vartype == "string",
                comment=item.reason,
                restart=item.parameter.restart,
            )
            for item in self.advice.values()
            if item.written
        ]

    def offers(self) -> list[Line]:
        """Settings for those for whom a condition holds that could not be checked."""
        return [
            Line(
                name=item.name,
                value=item.verdict.offer.value,
                quoted=item.parameter.vartype == "string",
                comment=item.reason,
                restart=item.parameter.restart,
                condition=item.verdict.offer.condition,
            )
            for item in self.advice.values()
            if isinstance(item.verdict, Keep) and item.verdict.offer
        ]

    @property
    def assumed(self) -> str | None:
        """What is taken for granted of a volume whose size nobody said."""
        situation = self.situation
        disk = situation.disk.size if situation.disk else None
        wal_disk = situation.wal_disk.size if situation.wal_disk else None
        if disk or wal_disk or not isinstance(self.advice["max_wal_size"].verdict, Change):
            return None
        return (
            f"Assumed: a volume that holds {self.advice['max_wal_size'].value} of WAL beside the "
            "data; --disk says its size, --wal-disk that of a volume for WAL alone"
        )

    def as_(self, format: str) -> str:
        """What is to be set, in one of `mrtuner.formats.FORMATS`, or ``json``."""
        if format == "json":
            import json

            return json.dumps(self.to_dict(), indent=2) + "\n"
        title = self.title
        if for_containers(format) and self.assumed:
            title += f". {self.assumed}."
        return render(format, [*self.lines(), *self.offers()], title=title)

    def as_conf(self) -> str:
        """An include file for postgresql.conf, reasons as comments."""
        return self.as_("conf")

    def as_sql(self) -> str:
        """ALTER SYSTEM statements and the reload."""
        return self.as_("sql")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for --json; see docs/reference/json.md for the schema."""
        return {
            "schema": SCHEMA,
            "postgres": self.situation.major,
            "workload": str(self.situation.workload),
            "live": self.situation.live,
            "given": [
                {"name": item.name, "value": item.value, "source": item.source}
                for item in self.given
            ],
            "advice": [item.to_dict() for item in self.advice.values()],
            "budget": _budget(self.budget),
            "recovery": _recovery(self.recovery),
            "notices": [{"level": str(item.level), "text": item.text} for item in self.notices],
            "steps": [
                {
                    "purpose": item.purpose,
                    "commands": list(item.commands),
                    "now": item.now,
                    "risk": item.risk,
                }
                for item in self.steps
            ],
            "missing": [
                {"name": item.name, "why": item.why, "supply": item.supply} for item in self.missing
            ],
        }


def _budget(budget: Budget | None) -> dict[str, Any] | None:
    if budget is None:
        return None
    return {
        "memory": budget.memory,
        "ceiling": budget.ceiling,
        "total": budget.total,
        "parts": [
            {"name": part.name, "bytes": part.size, "how": part.how} for part in budget.parts
        ],
    }


def _recovery(recovery: Recovery | None) -> dict[str, Any] | None:
    if recovery is None:
        return None
    return {
        "wal_bytes": recovery.wal,
        "seconds_fast": round(recovery.fast),
        "seconds_slow": round(recovery.slow),
        "how": recovery.how,
        "pace": recovery.pace,
    }
