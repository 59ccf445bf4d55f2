"""The record of a run: what was planned, measured, rejected and seen. Verdicts are not in it.

They are computed from it (`mrtuner.bench.verdict`), and a report can be made from it years later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from mrtuner.bench.plan.cells import cells
from mrtuner.bench.plan.model import GridCell, Phase, Plan
from mrtuner.host.model import Host

if TYPE_CHECKING:
    from mrtuner.bench.record.document import (
        AnyLine,
        FailureLine,
        HostFact,
        MeasuredRun,
        RejectionLine,
        RunDocument,
    )

#: What has to be the same in two runs before they may be compared.
_ALIKE: Final = ("kernel", "pgbench", "mrtuner")
#: Facts of a host that change from hour to hour.
_PASSING: Final = frozenset({"disk_free", "huge_pages", "swap"})


def now() -> str:
    """The current time in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def host_facts(host: Host | None) -> dict[str, HostFact]:
    """The known facts of a host, each with its source."""
    from mrtuner.bench.record.document import HostFact
    from mrtuner.documents import convert

    if host is None:
        return {}
    known = {entry.name: getattr(host, entry.name) for entry in fields(host)}
    return {
        name: convert(asdict(fact), HostFact)
        for name, fact in known.items()
        if fact is not None and name != "missing"
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A run of a plan, finished (`sealed`) or not."""

    plan: Plan
    samples: tuple[MeasuredRun, ...]  # rejected ones too, in the order they were taken
    failures: tuple[FailureLine, ...]
    finished: frozenset[tuple[str, str, int]]  # blocks: key of the cell, phase, number
    settings: Mapping[str, Mapping[str, str]]  # pg_settings of each variant
    rates: Mapping[str, float]  # tps of rates in percent of the capacity, by key of the cell
    notes: tuple[str, ...]  # about what happened during the run
    host: Mapping[str, Any]  # fact name to {"value", "source"}
    kernel: str  # of the load generator's machine
    pgbench: str  # version
    mrtuner: str  # version
    started: str  # ISO 8601, UTC
    ended: str | None
    local: bool  # servers and load generator share one machine
    forced: bool  # on a busy machine, with --force
    sealed: bool

    def of(self, cell: GridCell) -> list[MeasuredRun]:
        return [sample for sample in self.samples if sample.cell == cell]

    def accepted(
        self, cell: GridCell, label: str, phase: Phase = "comparison"
    ) -> list[MeasuredRun]:
        """The runs of a phase that count."""
        return [
            sample
            for sample in self.of(cell)
            if sample.label == label and sample.phase == phase and sample.rejected is None
        ]

    def cells(self) -> list[GridCell]:
        """The cells in which anything was measured, in the plan's order."""
        seen = {sample.cell for sample in self.samples}
        return [cell for cell in cells(self.plan) if cell in seen]


def unlike(one: Record, other: Record) -> list[str]:
    """Why two runs must not be compared: other hosts, kernels or versions, in words."""
    found = [
        f"{name} {getattr(one, name)} against {getattr(other, name)}"
        for name in _ALIKE
        if getattr(one, name) != getattr(other, name)
    ]
    for name in sorted({*one.host, *other.host} - _PASSING):
        here, there = (_lasting(side.host.get(name, {}).get("value")) for side in (one, other))
        if here != there:
            found.append(f"{name} {here} against {there}")
    for name in sorted(set(one.settings) & set(other.settings)):
        left, right = (
            side.settings[name].get("server_version", "unknown") for side in (one, other)
        )
        if left != right:
            found.append(f"PostgreSQL of {name} {left} against {right}")
    return found


def _lasting(value: Any) -> Any:
    """The value of a fact without what changes from minute to minute."""
    if isinstance(value, Mapping):
        return {name: each for name, each in value.items() if name != "committed"}
    return value


def assembled(head: RunDocument, lines: Sequence[AnyLine], *, sealed: bool) -> Record:
    """The record from the head and the lines of its archive."""
    from msgspec import structs

    from mrtuner.bench.record import document as of
    from mrtuner.documents import as_builtins

    rejected = {_attempt(line): line.reason for line in lines if isinstance(line, of.RejectionLine)}
    return Record(
        plan=head.plan,
        samples=tuple(
            structs.replace(line, rejected=rejected.get(_attempt(line)))
            for line in lines
            if isinstance(line, of.MeasuredRun)
        ),
        failures=tuple(line for line in lines if isinstance(line, of.FailureLine)),
        finished=frozenset(
            (line.cell.key, line.phase, line.block)
            for line in lines
            if isinstance(line, of.BlockLine)
        ),
        settings={
            line.variant: line.settings for line in lines if isinstance(line, of.SettingsLine)
        },
        rates={line.cell.key: line.tps for line in lines if isinstance(line, of.RateLine)},
        notes=tuple(dict.fromkeys(line.text for line in lines if isinstance(line, of.NoteLine))),
        host={name: as_builtins(fact) for name, fact in head.host.items()},
        kernel=head.kernel,
        pgbench=head.pgbench,
        mrtuner=head.mrtuner,
        started=head.started,
        ended=next((line.at for line in lines if isinstance(line, of.EndLine)), None),
        local=head.local and not any(isinstance(line, of.ElsewhereLine) for line in lines),
        forced=head.forced,
        sealed=sealed,
    )


def _attempt(line: MeasuredRun | RejectionLine) -> tuple[GridCell, Phase, int, int]:
    return line.cell, line.phase, line.block, line.attempt
