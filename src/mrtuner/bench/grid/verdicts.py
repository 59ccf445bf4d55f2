"""What a grid shows: in each cell the judge of a proof, over all cells Holm, and gates.

At full speed the throughput is judged, at a given rate the latency: there the throughput is what
was asked for. Verdicts are computed from the record alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from mrtuner.bench.grid.plan import PLACEMENT, Cell, Variant
from mrtuner.bench.grid.record import GridRecord, Taken
from mrtuner.bench.judge import Judgement, covers_a_cycle, judge
from mrtuner.errors import BadValue
from mrtuner.stats.histogram import Histogram, merged
from mrtuner.stats.paired import FEWEST_PAIRS, Comparison, Pair, Verdict, compare, holm
from mrtuner.stats.steady import CV_REFUSE, CV_WARN, HALF_RUN_DRIFT, half_run_drift, robust_cv

ALPHA: Final = 0.05
PERCENTILES: Final = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)
#: A thread of pgbench that is busy for so much of a run measures itself.
_SATURATED: Final = 0.9
#: Between two runs of a block the canary may differ by so much.
_CANARY: Final = 0.25
#: With fewer transactions in a run, the halves differ by chance and by where a second ends.
_FEWEST_FOR_DRIFT: Final = 200

Measure = Callable[[Taken], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellVerdict:
    """One variant against the first in one cell."""

    cell: Cell
    variant: Variant
    measure: str  # throughput, p99 latency, median latency
    comparison: Comparison  # of the cell alone; ratios are variant / first
    p_holm: float  # its p value, adjusted for all comparisons of the grid
    verdict: Verdict  # after that adjustment, the checkpoint's charge and the gates
    judgement: Judgement
    refused: tuple[str, ...]  # gates that forbid a verdict
    cautions: tuple[str, ...]

    @property
    def more_blocks(self) -> int | None:
        """Blocks still needed, where that would help."""
        return self.comparison.more_blocks if self.verdict is Verdict.UNDECIDED else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What one variant did in one cell: medians over its runs that count."""

    cell: Cell
    variant: str
    runs: int
    tps: float
    charged: float  # with the checkpoint left behind
    worst_second: int | None
    cv: float | None
    drift: float | None  # median of second half over first half, less one
    skipped: int
    times: Histogram  # of all runs together
    first_touch: float | None = None  # seconds of the very first statement, apart from all this
    pause: float | None = None  # the longest time [s] of all runs in which no transaction ended

    @property
    def percentiles(self) -> dict[str, int | None]:
        """Latencies [µs] by name; None where too few transactions were seen."""
        return {f"p{share * 100:g}": self.times.percentile(share) for share in PERCENTILES}

    @property
    def longest(self) -> int | None:
        """The longest transaction [µs]."""
        return self.times.counts[-1][0] if self.times.counts else None


@dataclass(frozen=True, slots=True)
class _Tested:
    """One comparison before the others are known."""

    record: GridRecord
    cell: Cell
    variant: Variant
    measure: str
    pairs: Sequence[Pair]
    charged: Sequence[Pair]
    higher_is_better: bool


def verdicts(record: GridRecord) -> list[CellVerdict]:
    """Every further variant against the first, in every cell with a finished block of both."""
    return verdicts_among([record])[0]


def verdicts_among(records: Sequence[GridRecord]) -> list[list[CellVerdict]]:
    """The same for each of several records that answer one question together."""
    tested = [
        one
        for record in records
        for cell in record.cells()
        for variant in record.plan.variants[1:]
        if (one := _tested(record, cell, variant)) is not None
    ]
    seen = [_compared(one, one.pairs, ALPHA) for one in tested]
    charged = [_compared(one, one.charged, ALPHA) for one in tested]
    adjusted = holm([comparison.p_value for comparison in seen])
    paid = holm([comparison.p_value for comparison in charged])
    found = [
        (one.record, _cell_verdict(one, comparison, p, p_charged, len(tested)))
        for one, comparison, p, p_charged in zip(tested, seen, adjusted, paid, strict=True)
    ]
    return [[verdict for of, verdict in found if of is record] for record in records]


def sides(record: GridRecord) -> list[Side]:
    """Every variant in every cell, where a run counts."""
    found = (
        _side(cell, name, record.accepted(cell, name))
        for cell in record.cells()
        for name in record.plan.names
    )
    return [side for side in found if side is not None]


def differing_settings(record: GridRecord) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Settings that are not the same for all variants, with each one's value, in base units.

    Where a server lies and listens is left out: that is ours, and differs from run to run.
    """
    known = [record.settings.get(name, {}) for name in record.plan.names]
    for name in sorted({name for settings in known for name in settings} - PLACEMENT):
        values = tuple(settings.get(name, "not there") for settings in known)
        if len(set(values)) > 1:
            yield name, values


def _tested(record: GridRecord, cell: Cell, variant: Variant) -> _Tested | None:
    measure, read, higher = _headline(record, cell)
    pairs = _pairs(record, cell, variant.name, read)
    if not pairs:
        return None
    reads_only = record.plan.by_name[cell.workload].reads_only
    charged = pairs if reads_only or cell.rate else _pairs(record, cell, variant.name, _charged)
    return _Tested(record, cell, variant, measure, pairs, charged, higher)


def _headline(record: GridRecord, cell: Cell) -> tuple[str, Measure, bool]:
    """What a cell is judged by: its name, how to read it, whether more is better."""
    if not cell.rate:
        return "throughput", _tps, True
    runs = [taken for taken in record.of(cell) if taken.sample.rejected is None]
    if all(_latency(0.99)(taken) is not None for taken in runs):
        return "p99 latency", _latency(0.99), False
    return "median latency", _latency(0.5), False


def blocks_of(record: GridRecord, one: CellVerdict) -> list[tuple[int, float, float]]:
    """Each block that counts with the two values that its ratio is made of: number, a, b."""
    _, read, _ = _headline(record, one.cell)
    return list(_blocks(record, one.cell, one.variant.name, read))


def _pairs(record: GridRecord, cell: Cell, name: str, read: Measure) -> list[Pair]:
    return [(a, b) for _, a, b in _blocks(record, cell, name, read)]


def _blocks(
    record: GridRecord, cell: Cell, name: str, read: Measure
) -> Iterator[tuple[int, float, float]]:
    """A block that lacks one of the two is left out."""
    first = {
        taken.sample.block: read(taken)
        for taken in record.accepted(cell, record.plan.baseline.name)
    }
    second = {taken.sample.block: read(taken) for taken in record.accepted(cell, name)}
    for block in sorted(first.keys() & second.keys()):
        a, b = first[block], second[block]
        if a and b:
            yield block, a, b


def _tps(taken: Taken) -> float:
    return taken.sample.run.tps


def _charged(taken: Taken) -> float:
    return taken.sample.charged_tps


def _latency(share: float) -> Measure:
    return lambda taken: taken.times.percentile(share)


def _compared(one: _Tested, pairs: Sequence[Pair], alpha: float) -> Comparison:
    return compare(
        pairs, delta=one.record.plan.delta, alpha=alpha, higher_is_better=one.higher_is_better
    )


def _cell_verdict(
    one: _Tested, seen: Comparison, p: float, p_charged: float, tests: int
) -> CellVerdict:
    record = one.record
    proof = record.of_cell(one.cell)
    judgement = judge(proof, one.variant.name)
    refused = tuple(_refusals(record, one))
    verdict = _settled(one, one.pairs, p, tests)
    first = record.plan.baseline.name
    paid = one.charged is one.pairs or all(
        covers_a_cycle(proof, name) for name in (first, one.variant.name)
    )
    if refused or (not paid and verdict != _settled(one, one.charged, p_charged, tests)):
        verdict = Verdict.UNDECIDED
    return CellVerdict(
        cell=one.cell,
        variant=one.variant,
        measure=one.measure,
        comparison=seen,
        p_holm=p,
        verdict=verdict,
        judgement=judgement,
        refused=refused,
        cautions=(*judgement.cautions, *_cautions(record, one, verdict, seen, p)),
    )


def _settled(one: _Tested, pairs: Sequence[Pair], p: float, tests: int) -> Verdict:
    """The verdict that holds among so many: Holm for a difference, Bonferroni for equivalence."""
    strict = _compared(one, pairs, ALPHA / tests)
    if strict.verdict is Verdict.EQUIVALENT:
        return Verdict.EQUIVALENT
    if p >= ALPHA or strict.pairs < FEWEST_PAIRS:
        return Verdict.UNDECIDED
    better = (strict.ratio > 1) is one.higher_is_better
    return Verdict.BETTER if better else Verdict.WORSE


def _refusals(record: GridRecord, one: _Tested) -> Iterator[str]:
    for name in (record.plan.baseline.name, one.variant.name):
        runs = record.accepted(one.cell, name)
        cv = _scatter(one.cell, runs)
        if cv is not None and cv >= CV_REFUSE:
            yield f"runs of {name} scatter by {cv * 100:.0f} % (robust CV), limit 15 %"
        workload = record.plan.by_name[one.cell.workload]
        threads = workload.threads(record.plan.threads, one.cell.clients)
        busy = max(
            (taken.sample.run.client_cpu / (taken.sample.run.wall * threads) for taken in runs),
            default=0.0,
        )
        if busy > _SATURATED:
            yield f"pgbench was busy {busy * 100:.0f} % of the time beside {name}: more threads"


def _cautions(
    record: GridRecord, one: _Tested, verdict: Verdict, seen: Comparison, p: float
) -> Iterator[str]:
    if one.variant.bound:
        yield "a bound: it shows what at most could be had, at the price of data; never advice"
    decided = seen.verdict in (Verdict.BETTER, Verdict.WORSE)
    if verdict is Verdict.UNDECIDED and decided and p >= ALPHA:
        yield f"taken alone this cell would be {seen.verdict}; among all of them it is not settled"
    for name in (record.plan.baseline.name, one.variant.name):
        runs = record.accepted(one.cell, name)
        cv = _scatter(one.cell, runs)
        if cv is not None and CV_WARN <= cv < CV_REFUSE:
            yield f"runs of {name} scatter by {cv * 100:.0f} % (robust CV)"
        yield from _on_steadiness(name, runs, warm=record.plan.standing)
    yield from _on_checkpoints(record, one)
    yield from _on_the_canary(record, one)
    skipped = sum(taken.skipped for taken in record.of(one.cell))
    if skipped:
        yield f"{skipped} transactions were too late and skipped: latencies are those of the rest"
    if record.forced:
        yield "taken on a busy machine, against advice (--force)"


def _on_checkpoints(record: GridRecord, one: _Tested) -> Iterator[str]:
    first = {
        taken.sample.block: _checkpoints(taken)
        for taken in record.accepted(one.cell, record.plan.baseline.name)
    }
    unlike = [
        taken.sample.block
        for taken in record.accepted(one.cell, one.variant.name)
        if abs(_checkpoints(taken) - first.get(taken.sample.block, _checkpoints(taken))) > 1
    ]
    if unlike:
        blocks = "1 block" if len(unlike) == 1 else f"{len(unlike)} blocks"
        yield f"in {blocks} the numbers of checkpoints met differ by more than one"


def _on_the_canary(record: GridRecord, one: _Tested) -> Iterator[str]:
    """Over a block, so that the drift of hours is not held against it."""
    paces: dict[int, list[float]] = {}
    for name in (record.plan.baseline.name, one.variant.name):
        for taken in record.accepted(one.cell, name):
            paces.setdefault(taken.sample.block, []).append(taken.canary)
    uneven = sum(1 for pace in paces.values() if max(pace) > min(pace) * (1 + _CANARY))
    if uneven:
        blocks = "1 block" if uneven == 1 else f"{uneven} blocks"
        yield (
            f"in {blocks} the machine changed its pace by more than {_CANARY * 100:.0f} %:"
            " the canary, a fixed piece of work, took longer before one run than before another"
        )


def _checkpoints(taken: Taken) -> int:
    return taken.sample.checkpoints_timed + taken.sample.checkpoints_requested


def _scatter(cell: Cell, runs: Sequence[Taken]) -> float | None:
    """Of the throughput; at a given rate that is chance alone."""
    return None if cell.rate else robust_cv([taken.sample.run.tps for taken in runs])


def _on_steadiness(name: str, runs: Sequence[Taken], *, warm: bool) -> Iterator[str]:
    drifts = [
        half_run_drift(taken.sample.run.per_second)
        for taken in runs
        if taken.sample.run.transactions >= _FEWEST_FOR_DRIFT
    ]
    moving = [drift for drift in drifts if drift is not None and abs(drift) > HALF_RUN_DRIFT]
    if moving:
        yield (
            f"{len(moving)} of {len(runs)} runs of {name} were not steady: the second half differed"
            f" from the first by up to {max(map(abs, moving)) * 100:.0f} %"
        )
    unsettled = sum(1 for taken in runs if not taken.settled)
    if unsettled and not warm:
        yield f"the warm-up of {unsettled} of {len(runs)} runs of {name} is not known to have ended"


def _side(cell: Cell, name: str, runs: Sequence[Taken]) -> Side | None:
    if not runs:
        return None
    rates = [taken.sample.run.tps for taken in runs]
    drifts = [half_run_drift(taken.sample.run.per_second) for taken in runs]
    known = [drift for drift in drifts if drift is not None]
    worst = [taken.sample.run.worst_second for taken in runs]
    pauses = [taken.pause for taken in runs if taken.pause is not None]
    touches = [taken.first_touch for taken in runs if taken.first_touch is not None]
    return Side(
        cell=cell,
        variant=name,
        runs=len(runs),
        tps=median(rates),
        charged=median(taken.sample.charged_tps for taken in runs),
        worst_second=min((second for second in worst if second is not None), default=None),
        cv=robust_cv(rates),
        drift=median(known) if known else None,
        skipped=sum(taken.skipped for taken in runs),
        times=merged(taken.times for taken in runs),
        first_touch=median(touches) if touches else None,
        pause=max(pauses, default=None),
    )


def by_cell(found: Sequence[Side]) -> Mapping[Cell, Mapping[str, Side]]:
    """The sides by cell and by variant."""
    table: dict[Cell, dict[str, Side]] = {}
    for side in found:
        table.setdefault(side.cell, {})[side.variant] = side
    return table


def require_something(record: GridRecord) -> None:
    """BadValue for a run in which no block of two variants was finished."""
    if not record.taken:
        raise BadValue("nothing was measured in this run", "Go on with it: --resume.")
