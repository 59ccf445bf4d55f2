"""The verdict of a proof, computed from its record alone, with what weakens it said aloud."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from mrtuner.bench.record import Phase, Record, Sample
from mrtuner.errors import BadValue
from mrtuner.stats.paired import (
    FEWEST_BLOCKS,
    Calibration,
    Comparison,
    Pair,
    Verdict,
    calibrate,
    compare,
)

Measure = Callable[[Sample], float | None]
#: A run that spans one checkpoint may have met it anywhere; two make a whole cycle between them.
_CHECKPOINTS_OF_A_CYCLE: Final = 2
#: A thread of pgbench that is busy for so much of the run measures itself.
_PGBENCH_SATURATED: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a record says of one arm against the first.

    `verdict` is that of the throughput. Where runs were too short to pay for their own writing,
    the truth lies between the throughput as measured and the one charged with the checkpoint
    left behind: then both have to agree, else it is undecided.
    """

    baseline: str
    candidate: str
    verdict: Verdict
    throughput: Comparison
    charged: Comparison | None  # None for a load that only reads
    p99: Comparison | None  # of latency: a ratio below 1 is better; None where nothing was logged
    calibration: Calibration | None
    cautions: tuple[str, ...]


def judge(record: Record, candidate: str | None = None) -> Judgement:
    """Judge an arm (by default the second) against the first; BadValue when it has no block."""
    baseline = record.arms[0].name
    candidate = record.arm(candidate).name if candidate else record.arms[1].name
    if candidate == baseline:
        raise BadValue(f"{candidate} is the arm to beat", "Name one of the others.")
    delta = record.plan.delta
    throughput = compare(pairs(record, baseline, candidate, _tps), delta=delta)
    charged = None
    if not record.plan.load.reads_only:
        charged = compare(pairs(record, baseline, candidate, _charged), delta=delta)
    slowest = pairs(record, baseline, candidate, _p99)
    judgement = Judgement(
        baseline=baseline,
        candidate=candidate,
        verdict=_verdict(record, throughput, charged),
        throughput=throughput,
        charged=charged,
        p99=compare(slowest, delta=delta, higher_is_better=False) if slowest else None,
        calibration=_calibration(record),
        cautions=(),
    )
    return replace(judgement, cautions=tuple(_cautions(record, judgement)))


def pairs(
    record: Record, a: str, b: str, measure: Measure, phase: Phase = "comparison"
) -> list[Pair]:
    """(a, b) of every block that counts, by label; a block that lacks a value is left out."""
    values = {(sample.block, sample.label): measure(sample) for sample in record.accepted(phase)}
    found = []
    for block in sorted({block for block, _ in values}):
        left, right = values.get((block, a)), values.get((block, b))
        if left is not None and right is not None:
            found.append((left, right))
    return found


def covers_a_cycle(record: Record, arm: str) -> bool:
    """Whether every run of an arm lasted for a checkpoint cycle of that arm.

    By the clock (checkpoint_timeout), or because WAL volume started two checkpoints in each run.
    """
    seconds = record.plan.load.seconds
    if seconds >= int(record.arm(arm).settings.get("checkpoint_timeout", "0")) > 0:
        return True
    runs = [sample for sample in record.accepted() if sample.arm == arm]
    return bool(runs) and all(
        sample.checkpoints_timed + sample.checkpoints_requested >= _CHECKPOINTS_OF_A_CYCLE
        for sample in runs
    )


def _tps(sample: Sample) -> float:
    return sample.run.tps


def _charged(sample: Sample) -> float:
    return sample.charged_tps


def _p99(sample: Sample) -> float | None:
    """None where nothing was logged, and for 0: pgbench looks at its clock once for each turn of a
    client, so an answer that is there at once takes no time. Such a time has no ratio.
    """
    return (sample.run.latency.p99 or None) if sample.run.latency else None


def _verdict(record: Record, throughput: Comparison, charged: Comparison | None) -> Verdict:
    paid = charged is None or all(covers_a_cycle(record, arm.name) for arm in record.arms)
    if paid or charged is None or charged.verdict == throughput.verdict:
        return throughput.verdict
    return Verdict.UNDECIDED


def _calibration(record: Record) -> Calibration | None:
    baseline = record.arms[0].name
    same = pairs(record, baseline, f"{baseline}'", _tps, "calibration")
    return calibrate(same) if same else None


def _cautions(record: Record, judgement: Judgement) -> Iterator[str]:
    yield from _on_the_numbers(judgement)
    yield from _on_writing(record, judgement)
    yield from _on_tails(judgement)
    yield from _on_the_machine(record)
    yield from _on_the_load(record)
    yield from _on_the_runs(record)


def _on_the_numbers(judgement: Judgement) -> Iterator[str]:
    seen, noise = judgement.throughput, judgement.calibration
    if seen.pairs < FEWEST_BLOCKS:
        yield f"{seen.pairs} blocks are few: {FEWEST_BLOCKS} or more make a proof"
    if seen.disagreement:
        yield "a second way of reckoning (signed ranks) comes to another verdict"
    if seen.near_resolution:
        yield (
            f"the difference is near the resolution: {seen.pairs} blocks find"
            f" {seen.mde * 100:.1f} % reliably"
        )
    if noise and noise.false_alarm:
        yield (
            "calibration saw a difference between two runs of the same settings: either the one"
            " time in twenty, or the machine is not fit for measuring"
        )


def _on_writing(record: Record, judgement: Judgement) -> Iterator[str]:
    if judgement.charged is None:
        return
    for arm in (judgement.baseline, judgement.candidate):
        if not covers_a_cycle(record, arm):
            timeout = record.arm(arm).settings.get("checkpoint_timeout", "unknown")
            yield (
                f"the window of {record.plan.load.seconds} s is shorter than a checkpoint cycle of"
                f" {arm} (checkpoint_timeout {timeout} s): write settings cannot be judged from"
                " this alone"
            )
    if judgement.charged.verdict != judgement.throughput.verdict:
        yield (
            f"throughput as measured is {judgement.throughput.verdict}"
            f" ({judgement.throughput.ratio:.2f}×), charged with the checkpoint left behind it is"
            f" {judgement.charged.verdict} ({judgement.charged.ratio:.2f}×)"
        )


def _on_tails(judgement: Judgement) -> Iterator[str]:
    if judgement.p99 and judgement.p99.verdict is Verdict.WORSE:
        longer = f"{judgement.p99.ratio:.2f}×"
        yield f"the slowest hundredth of the transactions takes longer ({longer})"


def _on_the_machine(record: Record) -> Iterator[str]:
    if record.arms[0].settings.get("fsync") == "off":
        yield "fsync is off: nothing here holds for a server that keeps its data"
    if not record.local:
        yield (
            "the server runs elsewhere: what disturbed it was not seen, and the network is part"
            " of every figure"
        )
    elif any(sample.foreign is None for sample in record.samples):
        yield "how much CPU others used could not be told here"


def _on_the_load(record: Record) -> Iterator[str]:
    threads = min(record.plan.load.threads, record.plan.load.clients)
    share = max(
        (sample.run.client_cpu / (sample.run.wall * threads) for sample in record.accepted()),
        default=0.0,
    )
    if share > _PGBENCH_SATURATED:
        yield (
            f"pgbench used {share * 100:.0f} % of its {threads} threads: it may have been the"
            " bottleneck"
        )


def _on_the_runs(record: Record) -> Iterator[str]:
    repeated = {(sample.phase, sample.block) for sample in record.samples if sample.rejected}
    if repeated:
        yield f"{_blocks(len(repeated))} disturbed and repeated; the rejected runs are on record"
    disturbed = {
        sample.block
        for sample in record.accepted()
        if record.plan.disturbances(sample.steal, sample.foreign)
    }
    if disturbed:
        yield f"{_blocks(len(disturbed))} disturbed again and counted all the same: noisy"
    failed = sum(sample.run.failed for sample in record.accepted())
    if failed:
        yield f"{failed} transactions failed and are not counted"


def _blocks(number: int) -> str:
    return "1 block was" if number == 1 else f"{number} blocks were"
