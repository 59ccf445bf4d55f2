"""The record of a grid: what was planned, run, rejected and seen. Verdicts are not in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mrtuner.bench.grid.cells import cells
from mrtuner.bench.grid.plan import Cell, GridPlan, from_dict
from mrtuner.bench.pgbench import Load
from mrtuner.bench.record import ArmRecord, Phase, Plan, Record, Sample, sample_from_dict
from mrtuner.stats.histogram import Histogram

SCHEMA: Final = "mrtuner.bench.run/1"
#: What has to be the same in two runs before they may stand side by side.
_ALIKE: Final = ("kernel", "pgbench", "mrtuner")
#: Facts of a host that change from hour to hour.
_PASSING: Final = frozenset({"disk_free", "huge_pages", "swap"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One measured run of a variant in a cell."""

    cell: Cell
    sample: Sample
    times: Histogram  # of single transactions; at a given rate from the scheduled start
    slowest: tuple[int, ...]  # the longest time [µs] that ended in each whole second
    skipped: int  # at a given rate with a limit: transactions too late to be begun
    rate: float | None  # transactions a second that were asked for
    warmup: int  # seconds that the warm-up took
    settled: bool  # whether it ended settled, by MSER-5
    canary: float  # seconds that a fixed piece of work took just before
    series: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # rates, each second
    deltas: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # of pg_stat_* views
    waits: Mapping[str, int] = field(default_factory=dict)
    backends: tuple[tuple[str, int, int], ...] = ()  # kind, voluntary and forced context switches
    collector_cpu: float = 0.0  # seconds that collecting took
    first_touch: float | None = None  # seconds that the very first statement took
    pause: float | None = None  # the longest time [s] in which no transaction ended
    commands: tuple[float, ...] = ()  # mean time [ms] of each of its script's, where asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A run that did not come to its end."""

    cell: Cell
    phase: Phase
    block: int
    attempt: int
    label: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRecord:
    """A run of a grid, finished (`sealed`) or not."""

    plan: GridPlan
    taken: tuple[Taken, ...]  # rejected ones too, in the order they were taken
    failures: tuple[Failure, ...]
    finished: frozenset[tuple[str, str, int]]  # blocks: key of the cell, phase, number
    settings: Mapping[str, Mapping[str, str]]  # pg_settings of each variant
    rates: Mapping[str, float]  # what shares of capacity came to, by key of the cell
    notes: tuple[str, ...]
    host: Mapping[str, Any]
    kernel: str
    pgbench: str
    mrtuner: str
    started: str
    ended: str | None
    local: bool
    forced: bool  # taken on a busy machine, against advice
    sealed: bool

    def of(self, cell: Cell) -> list[Taken]:
        """All runs of a cell."""
        return [taken for taken in self.taken if taken.cell == cell]

    def accepted(self, cell: Cell, label: str) -> list[Taken]:
        """The runs of the comparison that count."""
        return [
            taken
            for taken in self.of(cell)
            if taken.sample.label == label
            and taken.sample.phase == "comparison"
            and taken.sample.rejected is None
        ]

    def cells(self) -> list[Cell]:
        """The cells in which anything was measured, in the plan's order."""
        seen = {taken.cell for taken in self.taken}
        return [cell for cell in cells(self.plan) if cell in seen]

    def of_cell(self, cell: Cell) -> Record:
        """One cell as the record of a proof, so that one judge serves both."""
        workload = self.plan.by_name[cell.workload]
        load = Load(
            script=workload.script, scale=cell.scale, clients=cell.clients,
            threads=workload.threads(self.plan.threads, cell.clients),
            seconds=self.plan.seconds, protocol=workload.protocol, reads=workload.reads,
        )  # fmt: skip
        plan = Plan(
            load=load, warmup=self.plan.warmup_seconds, blocks=self.plan.blocks,
            calibrate=self.plan.calibrate, seed=self.plan.seed, delta=self.plan.delta,
            steal_limit=self.plan.steal_limit, foreign_limit=self.plan.foreign_limit,
        )  # fmt: skip
        arms = tuple(
            ArmRecord(name=name, settings=self.settings.get(name, {})) for name in self.plan.names
        )
        return Record(
            plan=plan, arms=arms, calibration_order=(), order=(),
            samples=tuple(taken.sample for taken in self.of(cell)), notes=(), local=self.local,
            script=None, host=self.host, kernel=self.kernel, pgbench=self.pgbench,
            mrtuner=self.mrtuner, started=self.started, ended=self.ended or self.started,
        )  # fmt: skip


def unlike(one: GridRecord, other: GridRecord) -> list[str]:
    """Why two runs must not be compared: other hosts, kernels or versions, in words."""
    found = [
        f"{name} {getattr(one, name)} against {getattr(other, name)}"
        for name in _ALIKE
        if getattr(one, name) != getattr(other, name)
    ]
    found += [
        f"{name} {one.host.get(name, {}).get('value')} against"
        f" {other.host.get(name, {}).get('value')}"
        for name in sorted({*one.host, *other.host} - _PASSING)
        if one.host.get(name, {}).get("value") != other.host.get(name, {}).get("value")
    ]
    for name in sorted(set(one.settings) & set(other.settings)):
        left, right = (
            side.settings[name].get("server_version", "unknown") for side in (one, other)
        )
        if left != right:
            found.append(f"PostgreSQL of {name} {left} against {right}")
    return found


def assembled(
    head: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], *, sealed: bool
) -> GridRecord:
    """The record from the head and the lines of its archive."""
    rejected = {_attempt(line): line["reason"] for line in _of(lines, "rejection")}
    return GridRecord(
        plan=from_dict(head["plan"]),
        taken=tuple(_taken(line, rejected) for line in _of(lines, "sample")),
        failures=tuple(_failure(line) for line in _of(lines, "failure")),
        finished=frozenset(
            (Cell(**line["cell"]).key, line["phase"], line["block"]) for line in _of(lines, "block")
        ),
        settings={line["variant"]: line["settings"] for line in _of(lines, "settings")},
        rates={Cell(**line["cell"]).key: line["tps"] for line in _of(lines, "rate")},
        notes=tuple(dict.fromkeys(line["text"] for line in _of(lines, "note"))),
        ended=next((line["at"] for line in _of(lines, "end")), None),
        sealed=sealed,
        **{
            name: head[name]
            for name in ("host", "kernel", "pgbench", "mrtuner", "started", "local", "forced")
        },
    )


def _of(lines: Iterable[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    return [line for line in lines if line["kind"] == kind]


def _attempt(line: Mapping[str, Any]) -> tuple[Cell, str, int, int]:
    return Cell(**line["cell"]), line["phase"], line["block"], line["attempt"]


def _taken(line: Mapping[str, Any], rejected: Mapping[Any, str]) -> Taken:
    sample = sample_from_dict(line["sample"])
    cell = Cell(**line["cell"])
    reason = rejected.get((cell, sample.phase, sample.block, sample.attempt))
    known = {name: value for name, value in line.items() if name != "kind"}
    return Taken(**{
        **known,
        "cell": cell,
        "sample": replace(sample, rejected=reason),
        "times": Histogram(tuple((value, count) for value, count in line["times"]["counts"])),
        "slowest": tuple(line["slowest"]),
        "commands": tuple(line.get("commands", ())),
        "series": {name: tuple(values) for name, values in line["series"].items()},
        "backends": tuple((kind, *counts) for kind, *counts in line.get("backends", ())),
    })  # fmt: skip


def _failure(line: Mapping[str, Any]) -> Failure:
    known = {name: value for name, value in line.items() if name != "kind"}
    return Failure(**{**known, "cell": Cell(**line["cell"])})
