"""The record of a benchmark as JSON: the head, ``mrtuner.bench.run/2``, and its lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from mrtuner.bench.load.pgbench import LoadRun
from mrtuner.bench.plan.model import GridCell, Phase, Plan
from mrtuner.described import document_name
from mrtuner.documents import Doc, Document, Struct, field
from mrtuner.stats.histogram import Histogram


class HostFact(Struct):
    """A fact about the machine."""

    value: Annotated[
        int | str | dict[str, int | str | None],
        Doc("sizes in bytes; several values by name for huge pages and virtual memory"),
    ]
    source: Annotated[str, Doc("where it was read")]


class RunDocument(Document, tag="mrtuner.bench.run/2"):
    """`run.json`, the head of the record that `mrtuner bench run` writes into a directory.

    Beside it lies `lines.jsonl`, one JSON object a line: the `lines` of a load in
    [`mrtuner.series/1`](#mrtunerseries1).
    """

    plan: Annotated[Plan, Doc("what was to be measured")]
    host: Annotated[dict[str, HostFact], Doc("facts about the load generator's machine, by name")]
    kernel: Annotated[str, Doc("its kernel")]
    pgbench: Annotated[str, Doc("version of pgbench")]
    mrtuner: Annotated[str, Doc("version of MrTuner")]
    started: Annotated[str, Doc("ISO 8601, UTC")]
    local: Annotated[bool, Doc("no variant is started by a command; see also the line `elsewhere`")]
    forced: Annotated[bool, Doc("taken on a busy machine, with `--force`")]


class RecordLine(Struct, tag_field="kind"):
    """A line of a record."""


class SettingsLine(RecordLine, tag="settings"):
    """The settings of a variant, as its server showed them."""

    variant: Annotated[str, Doc("the variant")]
    settings: Annotated[dict[str, str], Doc("`pg_settings`, in base units")]


@document_name("SampleLine")
class MeasuredRun(RecordLine, tag="sample", kw_only=True):
    """One measured run of a variant in a cell, with what server and machine did meanwhile."""

    cell: Annotated[GridCell, Doc("the cell")]
    phase: Annotated[Phase, Doc("calibration measures the first variant twice")]
    block: Annotated[int, Doc("from 1, in its cell and phase")]
    attempt: Annotated[int, Doc("2 if the block was repeated")]
    position: Annotated[int, Doc("from 1, in its block")]
    label: Annotated[
        str, Doc("the variant, with an apostrophe for the second run of a calibration")
    ]
    variant: Annotated[str, Doc("the variant")]
    seed: Annotated[int, Doc("of pgbench; the same for all runs of a block")]
    started: Annotated[str, Doc("ISO 8601, UTC")]
    rate: Annotated[float | None, Doc("transactions per second asked for; null: full speed")]
    warmup: Annotated[int, Doc("seconds of the load before the run")]
    warmup_tps: Annotated[float | None, Doc("transactions per second in them")]
    settled: Annotated[bool, Doc("whether the throughput had settled by then")]
    canary: Annotated[float, Doc("seconds that a fixed piece of work took just before")]
    run: Annotated[LoadRun, Doc("what the load program reported")]
    times: Annotated[
        Histogram, Doc("of single transactions; at a given rate from the scheduled start")
    ]
    slowest: Annotated[
        tuple[int, ...], Doc("the longest transaction that ended in each whole second [µs]")
    ]
    skipped: Annotated[
        int, Doc("transactions too late to be begun, at a given rate with a latency limit")
    ]
    checkpoint: Annotated[float, Doc("seconds that a `CHECKPOINT` right afterwards took")]
    wal_bytes: Annotated[int, Doc("WAL written during the run")]
    checkpoints_timed: Annotated[int, Doc("checkpoints by `checkpoint_timeout`")]
    checkpoints_requested: Annotated[int, Doc("other checkpoints")]
    steal: Annotated[float | None, Doc("share of CPU time taken by the hypervisor")]
    foreign: Annotated[float | None, Doc("share of CPU time taken by other programs")]
    series: Annotated[Mapping[str, tuple[float, ...]], Doc("rates in each second, by name")] = (
        field(default_factory=dict)
    )
    deltas: Annotated[
        Mapping[str, Mapping[str, float]],
        Doc("growth of the counters of `pg_stat_*` views, by view and column"),
    ] = field(default_factory=dict)
    waits: Annotated[
        Mapping[str, int], Doc("by wait event: how often an active session was seen in it")
    ] = field(default_factory=dict)
    backends: Annotated[
        tuple[tuple[str, int, int], ...],
        Doc("each process of the server: its kind, voluntary and involuntary context switches"),
    ] = ()
    collector_cpu: Annotated[float, Doc("seconds of CPU time that collecting took")] = 0.0
    first_touch: Annotated[float | None, Doc("seconds that the very first statement took")] = None
    pause: Annotated[float | None, Doc("the longest time in which no transaction ended [s]")] = None
    commands: Annotated[
        tuple[float, ...],
        Doc("mean time of each statement of the script [ms], for a workload with parts"),
    ] = ()
    rejected: Annotated[str | None, Doc("null: rejections are lines of their own")] = None

    @property
    def checkpoints(self) -> int:
        """Checkpoints that began during the run, timed or requested."""
        return self.checkpoints_timed + self.checkpoints_requested

    @property
    def tps_with_checkpoint(self) -> float:
        """Throughput if the run had to wait for the checkpoint that it left behind."""
        return self.run.transactions / (self.run.elapsed + self.checkpoint)


class FailureLine(RecordLine, tag="failure"):
    """A run that did not finish."""

    cell: Annotated[GridCell, Doc("the cell")]
    phase: Annotated[Phase, Doc("calibration or comparison")]
    block: Annotated[int, Doc("its number")]
    attempt: Annotated[int, Doc("2 if the block was repeated")]
    label: Annotated[str, Doc("the variant")]
    reason: Annotated[str, Doc("the error")]


class RejectionLine(RecordLine, tag="rejection"):
    """No sample of this attempt at a block counts."""

    cell: Annotated[GridCell, Doc("the cell")]
    phase: Annotated[Phase, Doc("calibration or comparison")]
    block: Annotated[int, Doc("its number")]
    attempt: Annotated[int, Doc("which attempt")]
    reason: Annotated[str, Doc("why it does not count")]


class BlockLine(RecordLine, tag="block"):
    """A block is finished."""

    cell: Annotated[GridCell, Doc("the cell")]
    phase: Annotated[Phase, Doc("calibration or comparison")]
    block: Annotated[int, Doc("its number")]


class RateLine(RecordLine, tag="rate"):
    """The rate that a share of the capacity was, in one cell."""

    cell: Annotated[GridCell, Doc("the cell")]
    tps: Annotated[float, Doc("transactions per second")]


class ElsewhereLine(RecordLine, tag="elsewhere"):
    """A server does not share the load generator's machine."""


class NoteLine(RecordLine, tag="note"):
    """Something that happened on the way."""

    text: Annotated[str, Doc("a sentence")]
    at: Annotated[str, Doc("ISO 8601, UTC")]


class EndLine(RecordLine, tag="end"):
    """The run is finished."""

    at: Annotated[str, Doc("ISO 8601, UTC")]


AnyLine = (
    SettingsLine | MeasuredRun | FailureLine | RejectionLine | BlockLine | RateLine | ElsewhereLine
    | NoteLine | EndLine
)  # fmt: skip


def read_line(text: bytes) -> AnyLine:
    """Return a line of a record; ValueError if it is damaged."""
    line: AnyLine = msgspec.json.decode(text, type=AnyLine)
    return line
