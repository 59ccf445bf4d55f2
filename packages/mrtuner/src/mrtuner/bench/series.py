"""A series of loads that answers one question together: what did the advice gain, and where not?

Every load is a grid of one workload, measured on servers that run side by side, and recorded like
any other (schema "mrtuner.bench.run/2"). What is judged, and how long each load runs, is fixed
before the first run; p values are adjusted by Holm over all loads. JSON form: schema
"mrtuner.series/1".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final

from mrtuner.bench.engine.blocks import carry_out
from mrtuner.bench.engine.events import STEPS_OF_A_RUN, Event, Progress, Stage
from mrtuner.bench.engine.grid import head
from mrtuner.bench.engine.preparation import Conduct, Preparation
from mrtuner.bench.engine.run import RunFiles
from mrtuner.bench.plan.cells import blocks
from mrtuner.bench.plan.model import GridCell, Plan
from mrtuner.bench.record.archive import Archive, contents, load
from mrtuner.bench.record.document import AnyLine, RunDocument
from mrtuner.bench.record.model import Record, assembled, now
from mrtuner.bench.server import guard, scratch
from mrtuner.bench.server.standing import DATABASE
from mrtuner.bench.server.variant import VariantServer
from mrtuner.bench.verdict.bound import Bound, bound
from mrtuner.bench.verdict.judge import CellVerdict, verdicts_among
from mrtuner.bench.verdict.meanwhile import meanwhile
from mrtuner.bench.verdict.pairs import blocks as values_by_block
from mrtuner.bench.verdict.pairs import pairs, throughput
from mrtuner.bench.verdict.summary import VariantSummary, summaries
from mrtuner.described import Doc, document_name
from mrtuner.host.model import Host
from mrtuner.postgres.connect import translated
from mrtuner.stats.comparison import Comparison, Verdict, compare

#: Our own servers, on existing data; a busy machine is never refused.
_STANDING: Final = Conduct(what="series", database=DATABASE, force=True)
#: Share of the machine's CPU that others use: above this, users are warned.
FOREIGN_CPU_WARNED: Final = 0.05
#: A pause is reported only if it is at least this many median transactions long.
_PAUSE_MEDIANS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One load: what runs, why, and how long; fixed before the first run."""

    title: str  # cached reads
    why: str  # where such a load occurs, and what may differ in it
    plan: Plan  # of one workload and two variants, the baseline first
    lead_in: int = 0  # seconds of the load on each side before the first block, dropped
    #: For a fixed rate: this share of the faster side's throughput in the task before.
    share: float | None = None

    @property
    def seconds(self) -> int:
        """Seconds of measuring and of warming up, lead-in included."""
        runs = sum(len(block.labels) for block in blocks(self.plan))
        run = self.plan.seconds + self.plan.warmup_seconds
        return runs * run + len(self.plan.variants) * self.lead_in

    @property
    def measuring(self) -> int:
        return sum(len(block.labels) for block in blocks(self.plan)) * self.plan.seconds

    @property
    def steps(self) -> int:
        return sum(len(block.labels) for block in blocks(self.plan)) * STEPS_OF_A_RUN + 1


@document_name("LoadRecord")
@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A load that was measured."""

    title: Annotated[str, Doc("its name")]
    why: Annotated[str, Doc("where such a load occurs")]
    head: Annotated[RunDocument, Doc("the head of its record")] = field(repr=False)
    lines: Annotated[
        Sequence[AnyLine], Doc("the lines of its record, in the order they were written")
    ] = field(repr=False)

    @property
    def record(self) -> Record:
        return assembled(self.head, self.lines, sealed=True)


@document_name("LoadLeftOut")
@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A load that could not be measured."""

    title: Annotated[str, Doc("its name")]
    why: Annotated[str, Doc("the reason")]
    remedy: Annotated[str, Doc("what would make it possible")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFinding:
    """What one load showed: the second side against the first."""

    title: str
    why: str
    verdict: CellVerdict
    record: Record
    a: VariantSummary
    b: VariantSummary
    bounds: tuple[Bound, Bound]

    @property
    def throughput(self) -> Comparison | None:
        """The comparison of throughput, whatever the load is judged by; None without a ratio."""
        labels = (self.a.variant, self.b.variant)
        found = pairs(self.record, self.verdict.cell, labels, throughput)
        return compare(found, delta=self.record.plan.delta) if found else None

    @property
    def rated(self) -> bool:
        """Whether the load had a fixed rate, so that latency is judged."""
        return bool(self.verdict.cell.rate)

    @property
    def pauses(self) -> tuple[float, float] | None:
        """The longest pause [s] of either side over all its runs.

        None for a single client, and if a median transaction takes over a fifth of that pause.
        """
        if self.verdict.cell.clients == 1:
            return None
        a, b = self.a.pause, self.b.pause
        medians = [side.times.percentile(0.5) or 0 for side in (self.a, self.b)]
        if a is None or b is None or _PAUSE_MEDIANS * max(medians) / 1e6 > max(a, b):
            return None
        return a, b

    @property
    def parts(self) -> list[tuple[str, float]]:
        """Each named part of the script with its speed: the median ratio of all blocks.

        A hint at what gains and what loses; nothing is judged by it.
        """
        names = self.record.plan.by_name[self.verdict.cell.workload].parts
        times = [
            {
                sample.block: _by_part(sample.commands, len(names))
                for sample in self.record.accepted(self.verdict.cell, side.variant)
                if names and len(sample.commands) >= len(names)
            }
            for side in (self.a, self.b)
        ]
        pairs = [(times[0][block], times[1][block]) for block in times[0].keys() & times[1].keys()]
        if not pairs:
            return []
        return [
            (name, median(a[place] / b[place] for a, b in pairs))
            for place, name in enumerate(names)
        ]

    @property
    def pauses_by_block(self) -> list[tuple[float, float]]:
        """The pauses [s] of both sides in every block that counts."""
        labels = (self.a.variant, self.b.variant)
        found = values_by_block(self.record, self.verdict.cell, labels, lambda one: one.pause)
        return [(a, b) for _, a, b in found]


@dataclass(frozen=True, kw_only=True)
class Series:
    """All loads of one question, including those that could not be measured."""

    measured: tuple[Measured, ...]
    left_out: tuple[LeftOut, ...] = ()
    conditions: tuple[str, ...] = ()  # what holds for all of it: sizes, limits, huge pages
    busy: str | None = None  # who used the machine just before, if anyone

    @cached_property
    def findings(self) -> tuple[LoadFinding, ...]:
        """Findings for every load with a finished block, in order; p values adjusted (Holm)."""
        return tuple(_findings(self.measured))

    @property
    def verdict(self) -> Verdict:
        """The overall verdict: better if a load is and none is worse; worse, vice versa."""
        seen = {one.verdict.verdict for one in self.findings}
        if Verdict.BETTER in seen and Verdict.WORSE not in seen:
            return Verdict.BETTER
        if Verdict.WORSE in seen and Verdict.BETTER not in seen:
            return Verdict.WORSE
        return Verdict.EQUIVALENT if seen == {Verdict.EQUIVALENT} else Verdict.UNDECIDED

    @property
    def foreign(self) -> float | None:
        """The median share of the CPU time that others used during a run; None where unknown."""
        shares = [
            sample.foreign
            for one in self.measured
            for sample in one.record.samples
            if sample.foreign is not None and sample.rejected is None
        ]
        return median(shares) if shares else None

    def to_dict(self) -> dict[str, Any]:
        from mrtuner.bench.document import SeriesDocument
        from mrtuner.documents import as_builtins, convert

        return as_builtins(convert(self, SeriesDocument))


def from_dict(document: Mapping[str, Any]) -> Series:
    """Restore a series from `to_dict`, also after JSON; BadValue for any other document."""
    from mrtuner.bench.document import SeriesDocument
    from mrtuner.documents import read

    found = read(document, SeriesDocument)
    return Series(
        measured=found.measured, left_out=found.left_out, conditions=found.conditions,
        busy=found.busy,
    )  # fmt: skip


def measure(
    task: Task,
    servers: Mapping[str, VariantServer],
    *,
    program: Path,
    host: Host | None = None,
    progress: Progress | None = None,
    conduct: Conduct = _STANDING,
    keep: Path | None = None,
) -> Measured:
    """Measure one load; by default on servers that keep running, and on their existing data.

    `keep` is a directory for the record, which `mrtuner bench report` reads.

    Raises Refused for unequal durability and MrTunerError when a run fails.
    """
    with translated(), guard.temporary_directory(f"mrtuner-{conduct.what}-") as place:
        record = keep or place / "record"
        archive = Archive.create(record, head(task.plan, host, program, local=True, forced=False))
        # Warm-ups are never lengthened.
        files = RunFiles(task.plan, place, program, patience=0, overtime=conduct.overtime)
        if task.lead_in:
            _lead_in(task, servers, files, conduct.database or DATABASE, progress)
        carry_out(Preparation(task.plan, servers, archive, files, conduct, progress), host)
        archive.seal(now())
        load(record)  # check that the record can be read again
        found, lines = contents(record)
        return Measured(title=task.title, why=task.why, head=found, lines=lines)


def paced(task: Task, before: Measured | None) -> Task:
    """Return the task with its rate set, if that depends on the task before."""
    if task.share is None or before is None:
        return task
    record = before.record
    speeds = [side.tps for side in summaries(record) if not side.cell.rate]
    return replace(task, plan=replace(task.plan, rates=(f"{max(speeds) * task.share:.0f}",)))


def _lead_in(
    task: Task, servers: Mapping[str, VariantServer], files: RunFiles, database: str,
    progress: Progress | None,
) -> None:  # fmt: skip
    workload, plan = task.plan.workloads[0], task.plan
    cell = GridCell(workload.name, plan.scales[0], plan.clients[0])
    driver = files.driver(cell)
    for name, server in servers.items():
        if progress is not None:
            progress(Event(Stage.WARMING_UP, 0, task.steps, name))
        dsn = files.dsn(cell, scratch.in_database(server.dsn, database))
        driver.run(dsn, task.lead_in, plan.seed)


def among(progress: Progress, tasks: Sequence[Task]) -> Callable[[int], Progress]:
    """Spread one progress bar over all tasks; the result gives the callback of task `number`."""
    total = sum(task.steps for task in tasks)

    def of(number: int) -> Progress:
        done = sum(task.steps for task in tasks[:number])

        def tell(event: Event) -> None:
            text = f"{tasks[number].title}, {event.text}"
            progress(replace(event, step=done + event.step, steps=total, text=text))

        return tell

    return of


def _findings(measured: Sequence[Measured]) -> Iterator[LoadFinding]:
    records = [one.record for one in measured]
    judged = verdicts_among(records)
    for one, record, of_it in zip(measured, records, judged, strict=True):
        known = {(side.cell, side.variant): side for side in summaries(record)}
        seen = {
            (cell, one.variant): one for cell in record.cells() for one in meanwhile(record, cell)
        }
        for verdict in of_it:
            pair = (record.plan.baseline.name, verdict.variant.name)
            a, b = (known[verdict.cell, name] for name in pair)
            rated = bool(verdict.cell.rate)
            cpus = _cpus(record)
            yield LoadFinding(
                title=_title(one.title, verdict.cell, several=len(of_it) > 1),
                why=one.why, verdict=verdict, record=record, a=a, b=b,
                bounds=tuple(
                    bound(seen[verdict.cell, name], cpus, rated=rated) for name in pair
                ),  # type: ignore[arg-type]  # a pair stays a pair
            )  # fmt: skip


def _title(title: str, cell: GridCell, *, several: bool) -> str:
    if not several:
        return title
    return f"{title}, {cell.rate} of capacity" if cell.rate else f"{title}, full speed"


def _by_part(times: Sequence[float], parts: int) -> list[float]:
    each = len(times) // parts
    return [sum(times[first : first + each]) for first in range(0, each * parts, each)]


def _cpus(record: Record) -> int:
    """Number of the machine's CPUs, even those we may not use: /proc/stat counts them all."""
    import os

    known = record.host.get("cpus", {}).get("value")
    return int(known) if known else os.cpu_count() or 1
