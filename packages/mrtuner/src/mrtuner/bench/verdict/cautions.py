"""What prevents a verdict, and what weakens one: each in its own clause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Final

from mrtuner.bench.plan.model import GridCell
from mrtuner.bench.record.document import MeasuredRun
from mrtuner.bench.record.model import Record
from mrtuner.bench.verdict.pairs import ALPHA, covers_a_cycle, pairs, throughput
from mrtuner.stats.comparison import FEWEST_BLOCKS, Verdict
from mrtuner.stats.steady import CV_REFUSE, CV_WARN, HALF_RUN_DRIFT, half_run_drift, robust_cv
from mrtuner.wording import plural, plural_was

if TYPE_CHECKING:
    from mrtuner.bench.verdict.judge import CellVerdict

#: A thread of pgbench that is busy for more than this share of a run measures itself.
_SATURATED: Final = 0.9
#: The canary may differ by this share between two runs of a block.
_CANARY: Final = 0.25
#: What a run shorter than a checkpoint cycle means, by whether anything but throughput is judged.
_UNSEEN: Final = {
    False: "it is judged as measured and including the checkpoint that it left behind",
    True: "what a checkpoint does to it is not seen",
}
#: With fewer transactions in a run, the halves differ by chance and by where a second ends.
_FEWEST_FOR_DRIFT: Final = 200


def refusals(
    record: Record, cell: GridCell, variant: str, finished: int, share: float | None = None
) -> Iterator[str]:
    """Why there can be no verdict: this alone decides whether a result counts.

    Too few blocks, runs that scatter, a load generator at its own limit, and, where the percentile
    of this `share` is judged, so many transactions that were never begun that it is not known. What
    else is said beside a verdict is a caution, and never that the result cannot be judged.
    """
    workload = record.plan.by_name[cell.workload]
    scatter = _scatter_that_counts(record, cell, variant) if workload.judges_throughput else ()
    for what, cv in scatter:
        if cv >= CV_REFUSE:
            yield f"{what} by {cv * 100:.0f} % (robust CV), more than {CV_REFUSE * 100:.0f} %"
    threads = workload.threads(record.plan.threads, cell.clients)
    for name in (record.plan.baseline.name, variant):
        runs = record.accepted(cell, name)
        busy = max(
            (sample.run.client_cpu / (sample.run.wall * threads) for sample in runs), default=0.0
        )
        if busy > _SATURATED:
            yield f"pgbench was busy {busy * 100:.0f} % of the time with {name!r}: use more threads"
        late = max((_never_begun(sample) for sample in runs), default=0.0)
        # Those would have taken the longest: what was measured is a percentile of the others.
        if share is not None and late > 1 - share:
            percentile = "median" if share == 0.5 else f"p{share * 100:g}"
            yield (
                f"{late * 100:.3g} % of the transactions of {name!r} were too late to be begun: its"
                f" {percentile} is not known"
            )
    if finished < FEWEST_BLOCKS:
        few = f"{plural(finished, 'block')} {'is' if finished == 1 else 'are'} too few"
        yield f"{few}: a proof needs {FEWEST_BLOCKS} or more"


def cautions(record: Record, one: CellVerdict) -> Iterator[str]:
    """What weakens a verdict, or explains why there is none."""
    yield from _on_the_numbers(one)
    yield from _on_writing(record, one)
    yield from _on_the_machine(record, one)
    yield from _on_repeated_blocks(record, one.cell)
    for name in (one.baseline, one.variant.name):
        yield from _on_the_runs(record, one.cell, name)
    yield from _on_checkpoints(record, one)
    yield from _on_the_canary(record, one)
    for name in (one.baseline, one.variant.name):
        yield from _on_transactions(record.accepted(one.cell, name), name)


def _on_the_numbers(one: CellVerdict) -> Iterator[str]:
    seen = one.comparison
    if one.variant.bound:
        yield "a bound: it shows the most that could be gained by risking data; never advice"
    if seen.disagreement:
        yield "a second method (signed ranks) gives another verdict"
    if seen.near_resolution:
        yield (
            f"the difference is near the resolution: {seen.pairs} blocks reliably detect "
            f"{seen.mde * 100:.1f} %"
        )
    decided_alone = seen.verdict in (Verdict.BETTER, Verdict.WORSE)
    if one.verdict is Verdict.UNDECIDED and decided_alone and one.p_holm >= ALPHA:
        yield f"by itself this cell would be {seen.verdict}; adjusted for all cells it is undecided"
    if one.calibration and one.calibration.false_alarm:
        yield (
            "calibration found a difference between runs of the same settings: either by chance "
            "(one time in twenty), or the machine is not fit for measuring"
        )
    if one.p99 and one.p99.verdict is Verdict.WORSE:
        longer = f"{one.p99.ratio:.2f}×"
        yield f"the slowest 1 % of transactions take longer ({longer})"


def _on_writing(record: Record, one: CellVerdict) -> Iterator[str]:
    if record.plan.by_name[one.cell.workload].reads_only:
        return
    for name in (one.baseline, one.variant.name):
        if not covers_a_cycle(record, one.cell, name):
            timeout = record.settings.get(name, {}).get("checkpoint_timeout", "unknown")
            yield (
                f"the run of {record.plan.seconds} s is shorter than a checkpoint cycle of"
                f" {name} (checkpoint_timeout {timeout} s, and the writing after it):"
                f" {_UNSEEN[one.with_checkpoint is None]}"
            )
    paid = one.with_checkpoint
    if paid is not None and paid.verdict != one.comparison.verdict:
        yield (
            f"throughput as measured is {one.comparison.verdict} ({one.comparison.ratio:.2f}×), "
            f"including the checkpoint left behind it is {paid.verdict} ({paid.ratio:.2f}×)"
        )


def _on_the_machine(record: Record, one: CellVerdict) -> Iterator[str]:
    if record.settings.get(one.baseline, {}).get("fsync") == "off":
        yield "fsync is off: these results do not apply to a server that keeps its data"
    if not record.local:
        yield (
            "the server runs on another machine: disturbances there were not seen, and every "
            "figure includes the network"
        )
    elif any(sample.foreign is None for sample in record.of(one.cell)):
        yield "the CPU use of other programs is not known"
    if record.forced:
        yield "measured on a busy machine (--force)"


def _on_repeated_blocks(record: Record, cell: GridCell) -> Iterator[str]:
    runs = record.of(cell)
    repeated = {(sample.phase, sample.block) for sample in runs if sample.rejected}
    if repeated:
        yield (
            f"{plural_was(len(repeated), 'block')} disturbed and repeated; the record keeps the "
            "rejected runs"
        )
    disturbed = {
        sample.block
        for sample in runs
        if sample.phase == "comparison"
        and not sample.rejected
        and record.plan.disturbances(sample.steal, sample.foreign)
    }
    if disturbed:
        yield f"{plural_was(len(disturbed), 'block')} disturbed again, but counted: noisy"


def _on_the_runs(record: Record, cell: GridCell, name: str) -> Iterator[str]:
    runs = record.accepted(cell, name)
    cv = _scatter(cell, runs)
    if cv is not None and cv >= CV_WARN:
        yield f"runs of {name!r} vary by {cv * 100:.0f} % (robust CV)"
    drifts = [
        half_run_drift(sample.run.per_second)
        for sample in runs
        if sample.run.transactions >= _FEWEST_FOR_DRIFT
    ]
    moving = [drift for drift in drifts if drift is not None and abs(drift) > HALF_RUN_DRIFT]
    if moving:
        yield (
            f"{len(moving)} of {len(runs)} runs of {name!r} were not steady: the second half "
            "differed"
            f" from the first by up to {max(map(abs, moving)) * 100:.0f} %"
        )
    unsettled = sum(1 for sample in runs if not sample.settled)
    if unsettled and not record.plan.standing:
        yield f"{unsettled} of {len(runs)} runs of {name!r} may not have finished warming up"


def _on_checkpoints(record: Record, one: CellVerdict) -> Iterator[str]:
    first = {sample.block: sample.checkpoints for sample in record.accepted(one.cell, one.baseline)}
    unlike = [
        sample.block
        for sample in record.accepted(one.cell, one.variant.name)
        if abs(sample.checkpoints - first.get(sample.block, sample.checkpoints)) > 1
    ]
    if unlike:
        blocks = plural(len(unlike), "block")
        yield f"in {blocks} the numbers of checkpoints differ by more than one"


def _on_the_canary(record: Record, one: CellVerdict) -> Iterator[str]:
    """Compare canaries only within a block, so that slow drift over hours does not count."""
    paces: dict[int, list[float]] = {}
    for name in (one.baseline, one.variant.name):
        for sample in record.accepted(one.cell, name):
            paces.setdefault(sample.block, []).append(sample.canary)
    uneven = sum(1 for pace in paces.values() if max(pace) > min(pace) * (1 + _CANARY))
    if uneven:
        blocks = plural(uneven, "block")
        yield (
            f"in {blocks} the machine's speed changed by more than {_CANARY * 100:.0f} %: the "
            "canary, a fixed piece of work, took longer before one run than before another"
        )


def _on_transactions(runs: Sequence[MeasuredRun], name: str) -> Iterator[str]:
    failed = sum(sample.run.failed for sample in runs)
    if failed:
        yield f"of {name!r}, {plural_was(failed, 'failed transaction')} not counted"
    skipped = sum(sample.skipped for sample in runs)
    if skipped:
        yield (
            f"of {name!r}, {plural_was(skipped, 'late transaction')} skipped; latencies are those"
            " of others"
        )


def _never_begun(sample: MeasuredRun) -> float:
    """The share of a run's transactions that were too late to be begun."""
    due = sample.run.transactions + sample.skipped
    return sample.skipped / due if due else 0.0


def _scatter(cell: GridCell, runs: Sequence[MeasuredRun]) -> float | None:
    """Robust CV of the throughput; None at a given rate, where it varies only by chance."""
    return None if cell.rate else robust_cv([sample.run.tps for sample in runs])


def _scatter_that_counts(
    record: Record, cell: GridCell, variant: str
) -> Iterator[tuple[str, float]]:
    """What varies, and how much: runs within their blocks, since what a block shares cancels out.

    The ratio of two runs varies sqrt(2) times as much as either of them. A few ratios may be alike
    by chance: with fewer blocks than a proof needs, the runs of each side are taken instead.
    """
    names = (record.plan.baseline.name, variant)
    ratios = [b / a for a, b in pairs(record, cell, names, throughput)]
    if len(ratios) < FEWEST_BLOCKS:
        for name in names:
            yield f"runs of {name!r} vary", _scatter(cell, record.accepted(cell, name)) or 0.0
    elif not cell.rate:
        yield "runs within a block vary", (robust_cv(ratios) or 0.0) / sqrt(2)
