"""What a benchmark shows as JSON: ``mrtuner.bench.report/2``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Annotated

from mrtuner.bench.plan.model import Connect, Network, Phase, Storage
from mrtuner.bench.record.document import FailureLine, HostFact
from mrtuner.bench.verdict.judge import Judged, require_samples, verdicts
from mrtuner.bench.verdict.meanwhile import SeenMeanwhile, meanwhile
from mrtuner.bench.verdict.summary import (
    OtherRun,
    beside,
    by_cell,
    collector_share,
    differing_settings,
    summaries,
)
from mrtuner.documents import Doc, Document, Struct, convert
from mrtuner.stats.comparison import Verdict

if TYPE_CHECKING:
    from mrtuner.bench.plan.model import GridCell, Variant
    from mrtuner.bench.record.model import Record
    from mrtuner.bench.verdict.judge import CellVerdict
    from mrtuner.bench.verdict.summary import VariantSummary


class MeasuredVariant(Struct):
    """A variant."""

    name: Annotated[str, Doc("its name")]
    server_version: Annotated[str | None, Doc("version of its server")]
    bound: Annotated[bool, Doc("shows what could be gained at most; never advice")]
    connect: Annotated[Connect, Doc("how clients connected")]
    network: Annotated[Network | None, Doc("of its container; null: no container")]
    image: Annotated[str | None, Doc("files of its container; null: no container")]
    storage: Annotated[Storage, Doc("where its data lay")]


class DifferingSetting(Struct):
    """A setting that is not the same for all variants."""

    name: Annotated[str, Doc("the parameter")]
    values: Annotated[list[str], Doc("in the order of the variants, in base units")]


class VariantInCell(Struct):
    """What a variant did in a cell: medians over its runs that count."""

    variant: Annotated[str, Doc("the variant")]
    runs: Annotated[int, Doc("runs that count")]
    tps: Annotated[float, Doc("transactions per second")]
    tps_with_checkpoint: Annotated[
        float, Doc("throughput if the checkpoint that follows each run counts as part of it")
    ]
    worst_second: Annotated[int | None, Doc("fewest transactions in a second of any run")]
    cv: Annotated[float | None, Doc("robust coefficient of variation of the runs")]
    drift: Annotated[float | None, Doc("throughput of the second half over the first, less one")]
    skipped: Annotated[int, Doc("transactions of all runs too late to be begun")]
    latency_ms: Annotated[
        dict[str, float | None],
        Doc(
            "percentiles of all runs together, `p50` `p90` `p95` `p99` `p99.9` `p99.99`; "
            "null with too few transactions"
        ),
    ]
    longest_ms: Annotated[float | None, Doc("the longest transaction of all runs")]
    first_touch_ms: Annotated[
        float | None, Doc("the very first statement, if a variant's data lie in an image's layer")
    ]


class VariantVerdict(Struct):
    """A variant against the first, in a cell."""

    variant: Annotated[str, Doc("the variant")]
    first: Annotated[str, Doc("the first variant")]
    verdict: Annotated[Verdict, Doc("after adjusting for all comparisons")]
    measure: Annotated[Judged, Doc("what is judged")]
    ratio: Annotated[float, Doc("of the measure: the variant over the first")]
    interval: Annotated[
        tuple[float | None, float | None],
        Doc("the 95 % interval of this cell alone; the upper bound is null with a single pair"),
    ]
    hodges_lehmann: Annotated[float, Doc("the Hodges-Lehmann estimate of the ratio")]
    pairs: Annotated[int, Doc("pairs of runs that count")]
    p: Annotated[float, Doc("p value of this cell alone")]
    p_holm: Annotated[float, Doc("p value adjusted for all comparisons (Holm)")]
    mde: Annotated[
        float | None, Doc("the difference that so many pairs detect with a power of 80 %")
    ]
    more_blocks: Annotated[
        int | None, Doc("blocks still needed for a verdict; null if that would not help")
    ]
    bound: Annotated[bool, Doc("the variant shows what could be gained at most; never advice")]
    refused: Annotated[list[str], Doc("why there is no verdict")]
    cautions: Annotated[list[str], Doc("what weakens the verdict")]


class CellReport(Struct):
    """A cell."""

    cell: Annotated[str, Doc("its name")]
    workload: Annotated[str, Doc("name of the workload")]
    scale: Annotated[int, Doc("scale factor")]
    clients: Annotated[int, Doc("number of sessions")]
    rate: Annotated[
        str,
        Doc("empty: full speed; `500`: transactions per second; `70%`: of the capacity"),
    ]
    asked_tps: Annotated[
        float | None, Doc("the rate that a share of the capacity was [transactions per second]")
    ]
    sides: Annotated[list[VariantInCell], Doc("what each variant did")]
    verdicts: Annotated[list[VariantVerdict], Doc("each further variant against the first")]
    meanwhile: Annotated[list[SeenMeanwhile], Doc("what was seen beside the runs")]


class RunFailure(Struct):
    """A run that did not finish."""

    cell: Annotated[str, Doc("name of the cell")]
    phase: Annotated[Phase, Doc("calibration or comparison")]
    block: Annotated[int, Doc("its number")]
    variant: Annotated[str, Doc("the variant")]
    reason: Annotated[str, Doc("the error")]


class SkippedVariant(Struct):
    """A variant that this machine could not run."""

    variant: Annotated[str, Doc("the variant")]
    reason: Annotated[str, Doc("why")]


class BenchReportDocument(Document, tag="mrtuner.bench.report/2"):
    """Written by `mrtuner bench report --json`, and by `run` and `compare` with `--json`."""

    name: Annotated[str, Doc("name of the plan")]
    finished: Annotated[bool, Doc("whether the record is sealed")]
    forced: Annotated[bool, Doc("taken on a busy machine, with `--force`")]
    started: Annotated[str, Doc("ISO 8601, UTC")]
    ended: Annotated[str | None, Doc("ISO 8601, UTC; null if it is not finished")]
    kernel: Annotated[str, Doc("kernel of the load generator's machine")]
    pgbench: Annotated[str, Doc("version of pgbench")]
    mrtuner: Annotated[str, Doc("version of MrTuner")]
    host: Annotated[dict[str, HostFact], Doc("facts about the load generator's machine, by name")]
    seed: Annotated[int, Doc("seed of the random order")]
    delta: Annotated[float, Doc("the smallest difference that matters, as a share")]
    variants: Annotated[list[MeasuredVariant], Doc("the others are compared with the first")]
    settings_diff: Annotated[list[DifferingSetting], Doc("settings that differ")]
    cells: Annotated[list[CellReport], Doc("one for each cell that was measured")]
    rejected: Annotated[int, Doc("number of samples that do not count")]
    failures: Annotated[list[RunFailure], Doc("runs that did not finish")]
    skipped: Annotated[list[SkippedVariant], Doc("variants that this machine could not run")]
    notes: Annotated[list[str], Doc("what happened on the way")]
    collector_share: Annotated[float, Doc("CPU time that collecting took, as a share of one CPU")]
    against: Annotated[list[OtherRun] | None, Doc("another run, with `--against`")]


def bench_report_document(record: Record, other: Record | None = None) -> BenchReportDocument:
    """Return the whole report; `other` is an earlier run to show next to it.

    Raises Refused when the two are from different hosts, kernels or versions.
    """
    require_samples(record)
    seen, found = verdicts(record), by_cell(summaries(record))
    return BenchReportDocument(
        name=record.plan.name,
        finished=record.sealed,
        forced=record.forced,
        started=record.started,
        ended=record.ended,
        kernel=record.kernel,
        pgbench=record.pgbench,
        mrtuner=record.mrtuner,
        host={name: convert(fact, HostFact) for name, fact in record.host.items()},
        seed=record.plan.seed,
        delta=record.plan.delta,
        variants=[_variant(record, variant) for variant in record.plan.variants],
        settings_diff=[
            DifferingSetting(name=name, values=list(values))
            for name, values in differing_settings(record)
        ],
        cells=[_cell(record, cell, found.get(cell, {}).values(), seen) for cell in record.cells()],
        rejected=sum(1 for sample in record.samples if sample.rejected),
        failures=[_failure(failure) for failure in record.failures],
        skipped=[
            SkippedVariant(variant=name, reason=reason)
            for name, reason in record.plan.skipped.items()
        ],
        notes=list(record.notes),
        collector_share=collector_share(record),
        against=None if other is None else beside(record, other),
    )


def _variant(record: Record, variant: Variant) -> MeasuredVariant:
    return MeasuredVariant(
        name=variant.name,
        server_version=record.settings.get(variant.name, {}).get("server_version"),
        bound=variant.bound,
        connect=variant.connect,
        network=variant.network,
        image=variant.image if variant.network else None,
        storage=variant.storage,
    )


def _cell(
    record: Record, cell: GridCell, found: Iterable[VariantSummary], seen: Sequence[CellVerdict]
) -> CellReport:
    return CellReport(
        cell=cell.key,
        workload=cell.workload,
        scale=cell.scale,
        clients=cell.clients,
        rate=cell.rate,
        asked_tps=record.rates.get(cell.key),
        sides=[_side(side) for side in found],
        verdicts=[_verdict(one) for one in seen if one.cell == cell],
        meanwhile=meanwhile(record, cell),
    )


def _side(side: VariantSummary) -> VariantInCell:
    return VariantInCell(
        variant=side.variant,
        runs=side.runs,
        tps=side.tps,
        tps_with_checkpoint=side.tps_with_checkpoint,
        worst_second=side.worst_second,
        cv=side.cv,
        drift=side.drift,
        skipped=side.skipped,
        latency_ms={name: _ms(value) for name, value in side.percentiles.items()},
        longest_ms=_ms(side.longest),
        first_touch_ms=None if side.first_touch is None else side.first_touch * 1000,
    )


def _verdict(one: CellVerdict) -> VariantVerdict:
    seen = one.comparison
    return VariantVerdict(
        variant=one.variant.name,
        first=one.baseline,
        verdict=one.verdict,
        measure=one.measure,
        ratio=seen.ratio,
        interval=(_finite(seen.low), _finite(seen.high)),
        hodges_lehmann=seen.hodges_lehmann,
        pairs=seen.pairs,
        p=seen.p_value,
        p_holm=one.p_holm,
        mde=_finite(seen.mde),
        more_blocks=one.more_blocks,
        bound=one.variant.bound,
        refused=list(one.refused),
        cautions=list(one.cautions),
    )


def _failure(failure: FailureLine) -> RunFailure:
    return RunFailure(
        cell=failure.cell.key,
        phase=failure.phase,
        block=failure.block,
        variant=failure.label,
        reason=failure.reason,
    )


def _ms(value: int | None) -> float | None:
    return None if value is None else value / 1000


def _finite(number: float) -> float | None:
    return number if isfinite(number) else None
