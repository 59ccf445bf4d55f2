"""What commands write as JSON beyond the document of a single capability."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Annotated

from mrtuner.bench.document import SeriesDocument
from mrtuner.bench.series import LeftOut
from mrtuner.bench.verdict.bound import BoundKind
from mrtuner.bench.verdict.judge import Judged
from mrtuner.change.document import ChangeOutcome, ChangePlan
from mrtuner.documents import UNSET, Doc, Document, Struct, UnsetType, convert
from mrtuner.stats.comparison import Verdict
from mrtuner.tuning.document import AppliedSide, QueryPlans, TuneDocument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mrtuner.bench.series import LoadFinding
    from mrtuner.bench.verdict.bound import Bound
    from mrtuner.bench.verdict.summary import VariantSummary
    from mrtuner.change.record import Outcome
    from mrtuner.stats.comparison import Comparison


class ApplyDocument(Document, tag="mrtuner.apply/1"):
    """Written by `mrtuner apply --json`."""

    recovered: Annotated[
        ChangeOutcome | None, Doc("how an earlier, interrupted change ended, if any")
    ]
    plan: Annotated[ChangePlan, Doc("what was to be written")]
    outcome: Annotated[ChangeOutcome, Doc("how it ended")]
    undo: Annotated[str | None, Doc("the command that undoes it; null if nothing changed")]
    plans: Annotated[QueryPlans | UnsetType, Doc("only with `--plans`")] = UNSET


class UndoDocument(Document, tag="mrtuner.undo/1"):
    """Written by `mrtuner undo --json`."""

    recovered: Annotated[
        ChangeOutcome | None, Doc("how an earlier, interrupted change ended, if any")
    ]
    outcome: Annotated[ChangeOutcome, Doc("how the undo ended")]
    removed: Annotated[
        list[str],
        Doc("leftovers of killed proofs: databases by name, directories by path"),
    ]


def undo_document(
    recovered: Outcome | None, outcome: Outcome, removed: Sequence[str]
) -> UndoDocument:
    """Return how an undo ended, and what killed proofs had left."""
    return UndoDocument(
        recovered=convert(recovered, ChangeOutcome) if recovered else None,
        outcome=convert(outcome, ChangeOutcome),
        removed=list(removed),
    )


class LoadSide(Struct):
    """One side of a load: the settings in force, or those advised."""

    side: Annotated[str, Doc("its name")]
    tps: Annotated[float, Doc("transactions per second, the median over runs")]
    p99_ms: Annotated[
        float | None, Doc("99th percentile of latency [ms]; null with too few transactions")
    ]
    longest_pause_s: Annotated[
        float | None, Doc("the longest time [s] in which no transaction ended")
    ]
    bound: Annotated[BoundKind, Doc("what limited it")]
    because: Annotated[str, Doc("the evidence for it")]


class LoadThroughput(Struct):
    """The throughput of a load: the advised side over the other."""

    ratio: Annotated[float, Doc("over all blocks")]
    interval: Annotated[tuple[float | None, float | None], Doc("its 95 % interval")]


class LoadResult(Struct):
    """What one load showed."""

    title: Annotated[str, Doc("its name")]
    why: Annotated[str, Doc("where such a load occurs")]
    measure: Annotated[Judged, Doc("what it is judged by")]
    verdict: Annotated[Verdict, Doc("the advised side against the other")]
    ratio: Annotated[float, Doc("of the measure: the advised side over the other")]
    interval: Annotated[
        tuple[float | None, float | None],
        Doc("the 95 % interval of the ratio; the upper bound is null with a single pair"),
    ]
    throughput: Annotated[
        LoadThroughput | None,
        Doc("of a load at full speed, even if another measure is judged"),
    ]
    pairs: Annotated[int, Doc("pairs of runs that count")]
    parts: Annotated[
        dict[str, float],
        Doc(
            "speed of each named part of its script, as the median ratio of all blocks; "
            "nothing is judged by it"
        ),
    ]
    p: Annotated[float, Doc("p value of this load alone")]
    p_holm: Annotated[float, Doc("p value adjusted for all loads (Holm)")]
    more_blocks: Annotated[
        int | None, Doc("blocks still needed for a verdict; null if that would not help")
    ]
    refused: Annotated[list[str], Doc("why there is no verdict")]
    cautions: Annotated[list[str], Doc("what weakens the verdict")]
    sides: Annotated[list[LoadSide], Doc("the settings in force, then those advised")]


class ReportDocument(Document, tag="mrtuner.report/2"):
    """Written by `mrtuner prove --json`, and as `report.json` by `mrtuner demo`.

    It has one load, or several that answer one question together. When there was nothing to
    compare, it has only `verdict` and `proof`, both null, and no `loads`.
    """

    verdict: Annotated[
        Verdict | None,
        Doc("better: a load is better and none is worse; worse: the reverse"),
    ]
    loads: Annotated[list[LoadResult], Doc("one for each comparison")]
    proof: Annotated[SeriesDocument | None, Doc("the records behind it")]
    tuning: Annotated[TuneDocument | UnsetType, Doc("the advice that was measured")] = UNSET
    applied: Annotated[
        AppliedSide | UnsetType | None, Doc("how the advice was put into force; null in the demo")
    ] = UNSET
    headline: Annotated[str | UnsetType, Doc("the verdict in words")] = UNSET
    warnings: Annotated[
        list[str] | UnsetType, Doc("what weakens every verdict, such as a busy machine")
    ] = UNSET
    left_out: Annotated[list[LeftOut] | UnsetType, Doc("loads that could not be measured")] = UNSET


def load_result(one: LoadFinding) -> LoadResult:
    seen = one.verdict.comparison
    return LoadResult(
        title=one.title,
        why=one.why,
        measure=one.verdict.measure,
        verdict=one.verdict.verdict,
        ratio=seen.ratio,
        interval=_interval(seen),
        throughput=_throughput(None if one.rated else one.throughput),
        pairs=seen.pairs,
        parts=dict(one.parts),
        p=seen.p_value,
        p_holm=one.verdict.p_holm,
        more_blocks=one.verdict.more_blocks,
        refused=list(one.verdict.refused),
        cautions=list(one.verdict.cautions),
        sides=[_side(side, bound) for side, bound in zip((one.a, one.b), one.bounds, strict=True)],
    )


def _throughput(seen: Comparison | None) -> LoadThroughput | None:
    return None if seen is None else LoadThroughput(ratio=seen.ratio, interval=_interval(seen))


def _interval(seen: Comparison) -> tuple[float | None, float | None]:
    low, high = (number if isfinite(number) else None for number in (seen.low, seen.high))
    return low, high


def _side(side: VariantSummary, bound: Bound) -> LoadSide:
    p99 = side.times.percentile(0.99)
    return LoadSide(
        side=side.variant,
        tps=side.tps,
        p99_ms=None if p99 is None else p99 / 1000,
        longest_pause_s=side.pause,
        bound=bound.kind,
        because=bound.words,
    )
