"""What weakens a verdict is reported with it; the arithmetic is in each docstring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from bench_grids import SETTINGS, a_plan, a_record, a_run, a_sample
from mrtuner.bench.load.pgbench import Builtin
from mrtuner.bench.plan.model import GridCell, Workload
from mrtuner.bench.record.document import MeasuredRun
from mrtuner.bench.record.model import Record
from mrtuner.bench.verdict.judge import CellVerdict, verdicts
from mrtuner.bench.verdict.pairs import covers_a_cycle
from mrtuner.stats.comparison import Verdict
from mrtuner.stats.histogram import Histogram

#: Five times the window of 60 s.
LONG = SETTINGS | {"checkpoint_timeout": "300"}


def of_load(builtin: Builtin, samples: Sequence[MeasuredRun], **other: Any) -> Record:
    """A record of one cell of this load, with a checkpoint cycle longer than the window."""
    plan = a_plan(workloads=(Workload(name=builtin, builtin=builtin),))
    return a_record(samples, plan, **{"settings": dict.fromkeys("ab", LONG)} | other)


def six_blocks(gain: float, load: str = "tpcb", **of_b: Any) -> list[MeasuredRun]:
    """b runs `gain` times as fast as a, give or take a percent; neither meets a checkpoint."""
    samples = []
    for block, wobble in enumerate((0.99, 1.0, 1.01, 0.99, 1.0, 1.01), 1):
        quiet = {"checkpoints_timed": 0, "checkpoint": 1.0}
        samples.append(a_sample(GridCell(load, 10, 4), block, "a", 1000, **quiet))
        tps = 1000 * gain * wobble
        samples.append(a_sample(GridCell(load, 10, 4), block, "b", tps, **quiet | of_b))
    return samples


def judged(record: Record) -> CellVerdict:
    (one,) = verdicts(record)
    return one


def test_a_clear_gain_is_better_and_survives_its_debt() -> None:
    one = judged(of_load("tpcb", six_blocks(1.30)))
    assert one.verdict is Verdict.BETTER
    assert one.comparison.pairs == 6
    assert one.comparison.ratio == pytest.approx(1.30, rel=1e-3)


def test_a_gain_that_the_checkpoint_eats_is_undecided() -> None:
    """b is 1.10 times as fast for 60 s and leaves 20 s of checkpoint, a leaves 1 s:
    1.10 x 61 / 80 = 0.839 with it, worse. A window of 60 s does not cover a cycle of 300 s.
    """
    one = judged(of_load("tpcb", six_blocks(1.10, checkpoint=20.0)))
    assert one.comparison.verdict is Verdict.BETTER
    assert one.with_checkpoint is not None
    assert one.with_checkpoint.ratio == pytest.approx(0.839, abs=0.001)
    assert one.with_checkpoint.verdict is Verdict.WORSE
    assert one.verdict is Verdict.UNDECIDED
    assert any("including the checkpoint left behind it is worse" in text for text in one.cautions)


@pytest.mark.parametrize(
    ("a", "target", "whole"),
    [("60", {}, False), ("31", {}, True), ("35", {}, False), ("35", {"b": "1", "a": "0.7"}, True)],
)
def test_a_window_of_a_whole_cycle_needs_no_checkpoint_in_it(
    a: str, target: dict[str, str], whole: bool
) -> None:
    """The writing of a timed checkpoint lasts for 0.9 of the timeout, unless the target is another.

    31 x 1.9 = 58.9 s and 30 x 1.9 = 57 s are no more than the 60 s of a run; 35 x 1.9 = 66.5 s are.
    35 x 1.7 = 59.5 s and 30 x 2 = 60 s are not.
    """
    quick = {
        name: SETTINGS
        | {"checkpoint_timeout": cycle}
        | ({"checkpoint_completion_target": target[name]} if target else {})
        for name, cycle in (("a", a), ("b", "30"))
    }
    one = judged(of_load("tpcb", six_blocks(1.10, checkpoint=20.0), settings=quick))
    assert one.verdict is (Verdict.BETTER if whole else Verdict.UNDECIDED)
    assert any("shorter than a checkpoint cycle" in text for text in one.cautions) is not whole


def test_two_checkpoints_in_every_run_make_a_cycle_too() -> None:
    samples = six_blocks(1.1, checkpoints_requested=2)
    cell = samples[0].cell
    assert covers_a_cycle(of_load("tpcb", samples), cell, "b")
    assert not covers_a_cycle(of_load("tpcb", samples), cell, "a")
    samples[-1] = structs.replace(samples[-1], checkpoints_requested=1)
    assert not covers_a_cycle(of_load("tpcb", samples), cell, "b")


def test_a_short_window_is_said_for_each_variant() -> None:
    assert (
        "the run of 60 s is shorter than a checkpoint cycle of b (checkpoint_timeout 300 s, and the"
        " writing after it): it is judged as measured and including the checkpoint that it left"
        " behind"
    ) in judged(of_load("tpcb", six_blocks(1.3))).cautions


def test_reading_leaves_no_debt() -> None:
    one = judged(of_load("select", six_blocks(1.1, "select", checkpoint=20.0)))
    assert one.with_checkpoint is None
    assert one.verdict is Verdict.BETTER
    assert one.cautions == ()


def test_latency_is_better_when_it_is_lower() -> None:
    """p99 of b is twice that of a, at the same throughput."""
    samples = [
        structs.replace(sample, times=Histogram(((1000, 980), (slow + sample.block, 20))))
        for sample in six_blocks(1.0)
        for slow in ((10_000,) if sample.label == "a" else (20_000,))
    ]
    one = judged(of_load("tpcb", samples))
    assert one.verdict is Verdict.EQUIVALENT
    assert one.p99 is not None
    assert one.p99.verdict is Verdict.WORSE
    assert "the slowest 1 % of transactions take longer (2.00×)" in one.cautions


def test_a_latency_of_zero_has_no_ratio_and_ends_nothing() -> None:
    """pgbench may see the answer in the same turn of its loop: by its clock no time passed."""
    at_once = Histogram(((0, 1000),))
    samples = [structs.replace(sample, times=at_once) for sample in six_blocks(2.0)]
    one = judged(of_load("tpcb", samples))
    assert one.p99 is None
    assert one.comparison.ratio == pytest.approx(2.0, rel=1e-3)


def test_rejected_runs_do_not_count_and_are_mentioned() -> None:
    why = "block repeated: steal 5.0 %, limit 1 %"
    wild = [
        structs.replace(sample, rejected=why, run=a_run(tps))
        for sample, tps in zip(six_blocks(1.3)[:2], (10, 5000), strict=True)
    ]
    one = judged(of_load("tpcb", wild + six_blocks(1.3)))
    assert one.comparison.ratio == pytest.approx(1.30, rel=1e-3)
    assert "1 block was disturbed and repeated; the record keeps the rejected runs" in one.cautions


def test_a_block_that_was_disturbed_twice_counts_as_noisy() -> None:
    cautions = judged(of_load("tpcb", six_blocks(1.3, foreign=0.2))).cautions
    assert "6 blocks were disturbed again, but counted: noisy" in cautions


def test_calibration_compares_the_first_variant_with_itself() -> None:
    """Three pairs, always 5 % apart: an alarm."""
    same = [
        a_sample(GridCell("tpcb", 10, 4), block, label, tps + block, phase="calibration")
        for block in range(1, 4)
        for label, tps in (("a", 1000), ("a'", 1050))
    ]
    one = judged(of_load("tpcb", same + six_blocks(1.3)))
    assert one.calibration is not None
    assert one.calibration.pairs == 3
    assert one.calibration.false_alarm
    assert any(text.startswith("calibration found") for text in one.cautions)
    assert one.comparison.pairs == 6


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"local": False}, "the server runs on another machine"),
        ({"settings": dict.fromkeys("ab", LONG | {"fsync": "off"})}, "fsync is off"),
        ({"forced": True}, "measured on a busy machine"),
    ],
)
def test_what_weakens_the_whole_record_is_said(other: dict[str, Any], said: str) -> None:
    cautions = judged(of_load("tpcb", six_blocks(1.3), **other)).cautions
    assert any(text.startswith(said) for text in cautions)


@pytest.mark.parametrize(("blocks", "counted"), [(1, "1 block is"), (5, "5 blocks are")])
def test_few_blocks_decide_nothing(blocks: int, counted: str) -> None:
    """Of six, each 1.3 times as fast, the fewest for which both methods have an interval."""
    found = judged(of_load("tpcb", six_blocks(1.3)[: 2 * blocks]))
    assert found.verdict is Verdict.UNDECIDED
    assert found.refused == (f"{counted} too few: a proof needs 6 or more",)
    assert found.more_blocks == 6 - blocks
    assert judged(of_load("tpcb", six_blocks(1.3))).more_blocks is None
    assert judged(of_load("tpcb", six_blocks(1.3))).verdict is Verdict.BETTER


def test_nothing_beside_a_verdict_says_that_there_can_be_none() -> None:
    """Runs of 5 s, and a checkpoint cycle of 300 s."""
    found = judged(of_load("tpcb", six_blocks(1.3)))
    assert found.verdict is Verdict.BETTER
    assert not any("cannot be judged" in text or "too few" in text for text in found.cautions)


def test_failed_transactions_are_said() -> None:
    samples = six_blocks(1.3)
    samples[0] = structs.replace(samples[0], run=replace(samples[0].run, failed=3))
    cautions = judged(of_load("tpcb", samples)).cautions
    assert "of 'a', 3 failed transactions were not counted" in cautions


def test_late_transactions_are_said_of_the_side_that_had_them() -> None:
    """Each of six runs of b skipped two."""
    cautions = judged(of_load("tpcb", six_blocks(1.3, skipped=2))).cautions
    late = [text for text in cautions if "late transaction" in text]
    assert late == [
        "of 'b', 12 late transactions were skipped; latencies are those of others"
    ]  # fmt: skip
