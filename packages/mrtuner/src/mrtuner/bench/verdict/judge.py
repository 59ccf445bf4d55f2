"""What a record shows: each further variant against the first, cell by cell.

At full speed the throughput is judged, or the longest pause where the workload says so; at a given
rate the latency, since there the throughput is what was asked for. p values are adjusted for all
comparisons that answer one question (Holm). Verdicts are computed from the record alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from mrtuner.bench.plan.model import GridCell, Variant
from mrtuner.bench.record.model import Record
from mrtuner.bench.verdict import cautions
from mrtuner.bench.verdict.pairs import (
    ALPHA,
    Measure,
    blocks,
    calibration_pairs,
    covers_a_cycle,
    latency,
    pairs,
    throughput,
    throughput_with_checkpoint,
)
from mrtuner.errors import BadValue
from mrtuner.stats.comparison import (
    FEWEST_BLOCKS,
    Comparison,
    Pair,
    Verdict,
    compare,
    holm,
)

#: What is judged; of latency, a percentile.
Judged = Literal["throughput", "longest pause", "p99 latency", "median latency"]
_SHARES: Final[dict[Judged, float]] = {"p99 latency": 0.99, "median latency": 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class CellVerdict:
    """One variant against the first in one cell.

    `verdict` takes the adjustment for all comparisons and the gates into account. If runs were too
    short to pay for their own writing, the truth lies between the throughput as measured and the
    one that includes the checkpoint left behind: unless both agree, the verdict is undecided.
    """

    cell: GridCell
    baseline: str
    variant: Variant
    measure: Judged
    comparison: Comparison  # of the cell alone; ratios are variant / first
    with_checkpoint: Comparison | None  # None where nothing is written or throughput not judged
    p99: Comparison | None  # of latency: a ratio below 1 is better; None where nothing was logged
    calibration: Comparison | None  # of the first variant with itself
    p_holm: float  # p value of `comparison`, adjusted for all
    verdict: Verdict
    more_blocks: int | None  # still needed, as one of all comparisons; None if they would not help
    refused: tuple[str, ...]  # gates that forbid a verdict
    cautions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Test:
    """One comparison before the others are known."""

    record: Record
    cell: GridCell
    variant: Variant
    measure: Judged
    higher_is_better: bool
    pairs: Sequence[Pair]
    with_checkpoint: Sequence[Pair] | None

    def compared(self, values: Sequence[Pair], alpha: float = ALPHA) -> Comparison:
        better = self.higher_is_better
        return compare(values, delta=self.record.plan.delta, alpha=alpha, higher_is_better=better)


def verdicts(record: Record) -> list[CellVerdict]:
    """Every further variant against the first, in every cell with a finished block of both."""
    return verdicts_among([record])[0]


def verdicts_among(records: Sequence[Record]) -> list[list[CellVerdict]]:
    """The verdicts of several records that together answer one question, a list for each."""
    tests = [test for record in records for test in _tests(record)]
    seen = [test.compared(test.pairs) for test in tests]
    paid = [test.compared(test.with_checkpoint or test.pairs) for test in tests]
    adjusted = holm([one.p_value for one in seen])
    adjusted_paid = holm([one.p_value for one in paid])
    found: list[tuple[Record, CellVerdict]] = []
    for number, test in enumerate(tests):
        verdict, more = _adjusted_verdict(test, test.pairs, adjusted[number], len(tests))
        if test.with_checkpoint is not None and not _cycles_covered(test):
            charged, too = _adjusted_verdict(
                test, test.with_checkpoint, adjusted_paid[number], len(tests)
            )
            verdict = verdict if charged == verdict else Verdict.UNDECIDED
            more = max(more, too)
        made = _cell_verdict(test, seen[number], paid[number], adjusted[number], verdict, more)
        found.append((test.record, made))
    return [[made for of, made in found if of is record] for record in records]


def blocks_of(record: Record, one: CellVerdict) -> list[tuple[int, float, float]]:
    """Each block that counts: its number and the two values of its ratio."""
    _, read, _ = _judged_by(record, one.cell)
    labels = (one.baseline, one.variant.name)
    return [found for found in blocks(record, one.cell, labels, read) if min(found[1:]) > 0]


def require_samples(record: Record) -> None:
    if not record.samples:
        raise BadValue("nothing was measured in this run", "Continue it with --resume.")


def _tests(record: Record) -> Iterator[_Test]:
    for cell in record.cells():
        writes = not record.plan.by_name[cell.workload].reads_only
        measure, read, higher = _judged_by(record, cell)
        for variant in record.plan.variants[1:]:
            labels = (record.plan.baseline.name, variant.name)
            paid = None
            if writes and measure == "throughput":
                paid = pairs(record, cell, labels, throughput_with_checkpoint)
            if found := pairs(record, cell, labels, read):
                yield _Test(record, cell, variant, measure, higher, found, paid)


def _judged_by(record: Record, cell: GridCell) -> tuple[Judged, Measure, bool]:
    """The measure of a cell: its name, how to read it, whether more is better."""
    if not cell.rate:
        if record.plan.by_name[cell.workload].judges_throughput:
            return "throughput", throughput, True
        return "longest pause", lambda sample: sample.pause, False
    runs = [sample for sample in record.of(cell) if sample.rejected is None]
    if all(latency(0.99)(sample) is not None for sample in runs):
        return "p99 latency", latency(0.99), False
    return "median latency", latency(0.5), False


def _cell_verdict(
    test: _Test, seen: Comparison, paid: Comparison, p: float, verdict: Verdict, more: int
) -> CellVerdict:
    record, cell = test.record, test.cell
    share = _SHARES.get(test.measure)
    refused = tuple(cautions.refusals(record, cell, test.variant.name, seen.pairs, share))
    slowest = pairs(record, cell, (record.plan.baseline.name, test.variant.name), latency(0.99))
    twice = calibration_pairs(record, cell)
    made = CellVerdict(
        cell=cell,
        baseline=record.plan.baseline.name,
        variant=test.variant,
        measure=test.measure,
        comparison=seen,
        with_checkpoint=None if test.with_checkpoint is None else paid,
        p99=compare(slowest, delta=record.plan.delta, higher_is_better=False) if slowest else None,
        calibration=compare(twice) if twice else None,
        p_holm=p,
        verdict=Verdict.UNDECIDED if refused else verdict,
        more_blocks=max(more, FEWEST_BLOCKS - seen.pairs, 0) or None,
        refused=refused,
        cautions=(),
    )
    return replace(made, cautions=tuple(cautions.cautions(record, made)))


def _cycles_covered(test: _Test) -> bool:
    names = (test.record.plan.baseline.name, test.variant.name)
    return all(covers_a_cycle(test.record, test.cell, name) for name in names)


def _adjusted_verdict(
    test: _Test, values: Sequence[Pair], p: float, tests: int
) -> tuple[Verdict, int]:
    """The verdict adjusted for all tests, and the blocks that it still needs, 0 once it is decided.

    Holm for a difference, Bonferroni for equivalence and for the blocks.
    """
    strict = test.compared(values, ALPHA / tests)
    if strict.verdict is Verdict.EQUIVALENT:
        return Verdict.EQUIVALENT, 0
    if p >= ALPHA:
        return Verdict.UNDECIDED, max(strict.more_blocks or 0, 1)
    better = (strict.ratio > 1) is test.higher_is_better
    return (Verdict.BETTER if better else Verdict.WORSE), 0
