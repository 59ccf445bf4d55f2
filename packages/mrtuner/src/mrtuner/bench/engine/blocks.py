"""Run a plan block by block: every run starts alike, and everything is recorded.

A block that fails, or is disturbed beyond the plan's limits, is repeated once. If it is disturbed
again, it counts all the same and the report says so; if it fails again, it is given up and the
rest goes on. On a user's servers and for a `standing` plan, the first error ends everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import Final

from mrtuner.bench.engine.events import STEPS_OF_A_RUN, Stage
from mrtuner.bench.engine.preparation import Preparation, started
from mrtuner.bench.engine.run import RunPosition, RunTarget, measured, warm_up
from mrtuner.bench.plan.cells import Block, blocks, variant_of
from mrtuner.bench.plan.durability import Settings
from mrtuner.bench.plan.model import GridCell
from mrtuner.bench.record import document as of
from mrtuner.bench.record.document import MeasuredRun
from mrtuner.bench.record.model import Record
from mrtuner.bench.server import scratch
from mrtuner.bench.server.session import settings
from mrtuner.bench.server.variant import VariantServer
from mrtuner.errors import MrTunerError, Refused, interrupted
from mrtuner.host import Host
from mrtuner.postgres.connect import connect, translated

#: Settings that determine when a checkpoint begins.
_CHECKPOINTING: Final = ("checkpoint_timeout", "max_wal_size", "checkpoint_completion_target")

Key = tuple[str, str, int]  # of a block: its cell, its phase, its number


def carry_out(prepared: Preparation, host: Host | None, record: Record | None = None) -> None:
    """Prepare and measure all that `record`, an interrupted run to continue, does not have yet.

    Databases created on servers that are not ours are dropped at the end, on an error and on
    Ctrl-C.
    """
    try:
        prepared.prepare(host, record.settings if record else {})
        _Campaign(prepared, Past(record)).run_all()
    finally:
        prepared.leave_nothing()
    prepared.teller.done()


class Past:
    """What has been measured so far, by this process and by earlier ones that were interrupted."""

    def __init__(self, record: Record | None) -> None:
        self.finished: frozenset[Key] = record.finished if record else frozenset()
        self.rates: dict[str, float] = dict(record.rates) if record else {}
        self.begun: dict[Key, int] = {}  # last attempt at each unfinished block
        self._tps: dict[tuple[GridCell, str], list[float]] = {}
        if record:
            self._take_up(record)

    def add(self, cell: GridCell, label: str, tps: float) -> None:
        self._tps.setdefault((cell, label), []).append(tps)

    def capacity(self, cell: GridCell, names: tuple[str, ...]) -> float:
        """Lowest median throughput [tps] of these variants; MrTunerError if one has not run."""
        seen = [self._tps.get((cell, name), []) for name in names]
        if not all(seen):
            raise MrTunerError(
                f"the capacity of {cell.key} is unknown",
                "All its variants must run at full speed first.",
            )
        return min(median(values) for values in seen)

    def _take_up(self, record: Record) -> None:
        for sample in record.samples:
            self._begin((sample.cell.key, sample.phase, sample.block), sample.attempt)
            if sample.rejected is None and sample.phase == "comparison":
                self.add(sample.cell, sample.label, sample.run.tps)
        for failure in record.failures:
            self._begin((failure.cell.key, failure.phase, failure.block), failure.attempt)

    def _begin(self, key: Key, attempt: int) -> None:
        if key not in self.finished:
            self.begun[key] = max(self.begun.get(key, 0), attempt)


class _Campaign:
    """A plan being run."""

    def __init__(self, prepared: Preparation, past: Past) -> None:
        self.prepared, self.past = prepared, past
        self.plan, self.archive, self.teller = prepared.plan, prepared.archive, prepared.teller
        self.order = blocks(prepared.plan)
        self.several = len({block.cell for block in self.order}) > 1
        self.repeating = False

    def run_all(self) -> None:
        """Run every block, or as many as are enough."""
        enough, taken = self.prepared.conduct.enough, list[MeasuredRun]()
        for block in self.order:
            end = self.teller.step + len(block.labels) * STEPS_OF_A_RUN
            if (block.cell.key, block.phase, block.number) not in self.past.finished:
                taken += self.run_block(block)
            self.teller.step = end
            if enough is not None and enough(taken):
                return

    def run_block(self, block: Block) -> list[MeasuredRun]:
        attempt = self.past.begun.get((block.cell.key, block.phase, block.number), 0) + 1
        if attempt > 1:
            self.reject(block, attempt - 1, "interrupted")
        taken, reason = self.attempt_block(block, attempt)
        if reason:
            self.reject(block, attempt, reason)
            self.teller.tell(Stage.REPEATING, f"repeating {self.where(block)}: {reason}")
            taken = self.repeat_block(block, attempt + 1)
        self.archive.append(of.BlockLine(block.cell, block.phase, block.number))
        if block.phase == "comparison":
            for one in taken:
                self.past.add(block.cell, one.label, one.run.tps)
        return taken

    def repeat_block(self, block: Block, attempt: int) -> list[MeasuredRun]:
        """Run a block again; its runs count even if they are disturbed."""
        self.repeating = True
        taken, reason = self.attempt_block(block, attempt)
        self.repeating = False
        if len(taken) < len(block.labels):
            self.prepared.note(f"{self.where(block)} given up: {reason}")
        return taken

    def attempt_block(self, block: Block, attempt: int) -> tuple[list[MeasuredRun], str]:
        """Run every variant of a block once; return the samples, and why to repeat it if so."""
        taken: list[MeasuredRun] = []
        reasons: list[str] = []
        for position, label in enumerate(block.labels, 1):
            place = RunPosition(block, attempt, position, label, variant_of(label))
            try:
                one = self.measure(place)
            except MrTunerError as error:
                fatal = self.prepared.conduct.theirs or self.plan.standing
                if fatal or isinstance(error, Refused) or interrupted(error):
                    raise
                self.archive.append(of.FailureLine(
                    block.cell, block.phase, block.number, attempt, label, error.message
                ))  # fmt: skip
                reasons.append(f"{label} failed: {error.message}")
                continue
            self.archive.append(one)
            taken.append(one)
            reasons += self.plan.disturbances(one.steal, one.foreign)
            self.teller.tell(
                Stage.MEASURED, f"{self.cell(block)}{label}: {_pace(one.run.tps)} tps", one
            )  # fmt: skip
        reasons += unbalanced(taken, self.prepared.settings)
        return taken, "; ".join(dict.fromkeys(reasons))

    def reject(self, block: Block, attempt: int, reason: str) -> None:
        self.archive.append(
            of.RejectionLine(block.cell, block.phase, block.number, attempt, reason)
        )

    def measure(self, place: RunPosition) -> MeasuredRun:
        """Do one run, from the same starting state as all others."""
        cell, server = place.block.cell, self.prepared.servers[place.variant]
        self.tell(Stage.ACTIVATING, place)
        rate = self.rate(cell)
        template = self.prepared.template(cell.workload, cell.scale)
        with started(server), translated():
            self.advance(Stage.COPYING, place)
            database = self.fresh(server, template, cell)
            try:
                with server.layered():
                    dsn = scratch.in_database(server.dsn, database)
                    local, beside = self.prepared.local, tuple(server.companions)
                    return self.run(place, RunTarget(dsn, server.data, local, rate, beside))
            finally:
                if database != template:
                    _drop(server, database)

    def run(self, place: RunPosition, target: RunTarget) -> MeasuredRun:
        self.advance(Stage.WARMING_UP, place)
        warm = warm_up(self.prepared.files, place, target)
        self.advance(Stage.MEASURING, place)
        with connect(target.dsn) as session:
            self.prepared.check_settings(place.variant, settings(session))
            taken = measured(self.prepared.files, place, target, warm, session)
        self.teller.step += not self.repeating
        return taken

    def fresh(self, server: VariantServer, template: str, cell: GridCell) -> str:
        """Return a fresh copy of the template for a load that writes, else the template itself.

        In a `standing` plan every run continues where the last one on its server ended.
        """
        if self.plan.by_name[cell.workload].reads_only or self.plan.standing:
            return template
        with connect(server.dsn) as session:
            return scratch.fresh_copy(session, template)

    def rate(self, cell: GridCell) -> float | None:
        """Rate to request [tps], None at full speed; a percentage is of the slowest variant's."""
        if not cell.rate:
            return None
        if not cell.relative:
            return float(cell.rate)
        if cell.key not in self.past.rates:
            capacity = self.past.capacity(cell.closed, self.plan.names)
            self.past.rates[cell.key] = round(capacity * float(cell.rate[:-1]) / 100, 1)
            self.archive.append(of.RateLine(cell, self.past.rates[cell.key]))
        return self.past.rates[cell.key]

    # Telling

    def tell(self, stage: Stage, place: RunPosition) -> None:
        self.teller.tell(stage, f"{self.where(place.block)}, {place.label}")

    def advance(self, stage: Stage, place: RunPosition) -> None:
        """Count a finished stage and report the next; a repeated block adds no steps."""
        self.teller.step += not self.repeating
        self.tell(stage, place)

    def where(self, block: Block) -> str:
        return f"{self.cell(block)}{block.phase} block {block.number}"

    def cell(self, block: Block) -> str:
        """The cell's name and a space, if the plan has several cells."""
        return f"{block.cell.key} " if self.several else ""


def unbalanced(taken: Sequence[MeasuredRun], known: Mapping[str, Settings]) -> list[str]:
    """Return why a block is uneven: checkpoint counts of its runs are more than one apart.

    Only variants with equal checkpoint settings count; others are expected to differ.
    """
    groups: dict[tuple[str | None, ...], list[int]] = {}
    for one in taken:
        found = known.get(one.variant, {})
        starts = tuple(found.get(name) for name in _CHECKPOINTING)
        groups.setdefault(starts, []).append(one.checkpoints)
    return [
        f"its runs saw between {min(met)} and {max(met)} checkpoints"
        for met in groups.values()
        if max(met) - min(met) > 1
    ]


def _pace(tps: float) -> str:
    """Format a throughput: whole numbers from 100 on, three significant figures below."""
    return f"{tps:,.0f}" if tps >= 100 else f"{tps:.3g}"


def _drop(server: VariantServer, database: str) -> None:
    """Drop a copy, lest copies of several scales pile up; a lost server must not hide the error."""
    from psycopg import sql

    query = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database))
    with suppress(MrTunerError), connect(server.dsn) as session:
        session.execute(query)
