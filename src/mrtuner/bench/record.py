"""The immutable record of a proof: everything that was planned, run, measured and rejected.

Verdicts are not in it; they are computed from it (`mrtuner.bench.judge`), and a report can be
rebuilt from it years later. JSON form: ``to_dict`` and ``from_dict``, schema "mrtuner.proof/1".
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final, Literal

from mrtuner.bench.output import Latency
from mrtuner.bench.pgbench import Load, Run
from mrtuner.errors import BadValue
from mrtuner.host.model import Host

SCHEMA: Final = "mrtuner.proof/1"
Phase = Literal["calibration", "comparison"]
Order = tuple[tuple[str, ...], ...]


def now() -> str:
    """The moment in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def fresh_seed() -> int:
    """A seed for the order of runs."""
    return secrets.randbelow(2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is fixed before the first run, the rules for rejecting runs included."""

    load: Load
    warmup: int = 15  # seconds, dropped; 0 for none
    blocks: int = 10
    calibrate: int = 0  # further blocks that measure the first arm twice
    seed: int = field(default_factory=fresh_seed)
    delta: float = 0.03  # the smallest difference that matters
    database: str = "mrtuner_proof"
    fillfactor: int | None = None
    steal_limit: float = 0.01  # share of the machine's CPU time; above it a block is repeated
    foreign_limit: float = 0.03

    def __post_init__(self) -> None:
        if min(self.warmup, self.calibrate) < 0 or self.blocks < 1:
            raise BadValue(
                f"a plan of {self.blocks} blocks, {self.calibrate} calibration blocks and"
                f" {self.warmup} s of warm-up cannot be run",
                "Give at least one block, and no negative numbers.",
            )
        if not 0 < self.delta < 1:
            raise BadValue(f"delta {self.delta} does not lie between 0 and 1", "Write 3 % as 0.03.")
        # 63 bytes are a name's limit, and the working copy's ends in _run.
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,58}", self.database):
            raise BadValue(
                f"{self.database!r} cannot name the database of a proof",
                "Use up to 59 lower-case letters, digits and underscores.",
            )

    @property
    def gated(self) -> bool:
        """Whether any disturbance could cause a block to be repeated."""
        return min(self.steal_limit, self.foreign_limit) < 1

    def disturbances(self, steal: float | None, foreign: float | None) -> list[str]:
        """What exceeded its limit, in words; a share that could not be told exceeds nothing."""
        shares = (
            ("steal", steal, self.steal_limit),
            ("CPU used by others", foreign, self.foreign_limit),
        )
        return [
            f"{name} {share * 100:.1f} %, limit {limit * 100:g} %"
            for name, share, limit in shares
            if share is not None and share > limit
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measured run, in its place, with what the server and the machine did meanwhile."""

    phase: Phase
    block: int  # from 1, in its phase
    attempt: int  # 2 when the block was repeated
    position: int  # from 1, in its block
    label: str  # the arm's name; in calibration the second run of a block is name'
    arm: str
    seed: int  # pgbench's; the same for all runs of a block
    started: str  # ISO 8601, UTC
    warmup_tps: float | None
    run: Run
    checkpoint: float  # seconds that a CHECKPOINT took right afterwards: unpaid debt
    wal_bytes: int  # during the run
    checkpoints_timed: int
    checkpoints_requested: int
    steal: float | None  # shares of this machine's CPU time
    foreign: float | None
    rejected: str | None = None  # why it does not count

    @property
    def charged_tps(self) -> float:
        """Throughput if the run had to wait for the checkpoint that it left behind."""
        return self.run.transactions / (self.run.elapsed + self.checkpoint)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRecord:
    """One side of the comparison: pg_settings as the measured sessions saw it, base units."""

    name: str
    settings: Mapping[str, str]

    @property
    def version(self) -> str:
        """18.6"""
        return self.settings.get("server_version", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A finished proof. The first arm is the one that the others are compared with."""

    plan: Plan
    arms: tuple[ArmRecord, ...]
    calibration_order: Order
    order: Order
    samples: tuple[Sample, ...]  # in the order they were taken, rejected ones too
    notes: tuple[str, ...]  # what happened on the way
    local: bool  # server and load generator share one machine
    script: str | None  # the text of a script of one's own
    host: Mapping[str, Any]  # fact name to {"value", "source"}, where the caller knew the host
    kernel: str  # of the load generator's machine
    pgbench: str  # version
    mrtuner: str  # version
    started: str  # ISO 8601, UTC
    ended: str

    def accepted(self, phase: Phase = "comparison") -> tuple[Sample, ...]:
        """The samples that count."""
        return tuple(
            sample for sample in self.samples if sample.phase == phase and not sample.rejected
        )

    def arm(self, name: str) -> ArmRecord:
        """The arm of this name; BadValue when there is none."""
        for arm in self.arms:
            if arm.name == name:
                return arm
        names = ", ".join(arm.name for arm in self.arms)
        raise BadValue(f"no arm {name!r} in the record", f"It holds {names}.")

    def to_dict(self) -> dict[str, Any]:
        """A document of JSON types."""
        return {"schema": SCHEMA} | asdict(self)


def from_dict(document: Mapping[str, Any]) -> Record:
    """The record back from `to_dict`, also after JSON; BadValue for any other document."""
    if document.get("schema") != SCHEMA:
        raise BadValue(
            f"not a record of a proof: schema {document.get('schema')!r}",
            f"Give a document with schema {SCHEMA!r}.",
        )
    try:
        return Record(**_record(document))
    except (KeyError, TypeError, AttributeError) as error:
        raise BadValue(
            f"the record of the proof is damaged: {error}", "Use the file as it was written."
        ) from error


def sample_from_dict(document: Mapping[str, Any]) -> Sample:
    """A sample back from its JSON form; KeyError or TypeError for anything else."""
    return Sample(**{**document, "run": _run(document["run"])})


def host_facts(host: Host | None) -> dict[str, Any]:
    """The known facts of a host as JSON types, each with its source."""
    if host is None:
        return {}
    known = {entry.name: getattr(host, entry.name) for entry in fields(host)}
    return {
        name: asdict(fact) for name, fact in known.items() if fact is not None and name != "missing"
    }


def _record(document: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in document.items() if name != "schema"}
    return kept | {
        "plan": Plan(**kept["plan"] | {"load": Load(**kept["plan"]["load"])}),
        "arms": tuple(ArmRecord(**arm) for arm in kept["arms"]),
        "calibration_order": _order(kept["calibration_order"]),
        "order": _order(kept["order"]),
        "samples": tuple(map(sample_from_dict, kept["samples"])),
        "notes": tuple(kept["notes"]),
    }


def _order(blocks: Sequence[Sequence[str]]) -> Order:
    return tuple(tuple(block) for block in blocks)


def _run(document: Mapping[str, Any]) -> Run:
    latency = document["latency"]
    return Run(
        **dict(document)
        | {
            "latency": Latency(**latency) if latency else None,
            "per_second": tuple(document["per_second"]),
        }
    )
