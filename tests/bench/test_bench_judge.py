"""Records made by hand; the expected verdicts are worked out in each docstring."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mrtuner.bench.judge import covers_a_cycle, judge
from mrtuner.bench.output import Latency
from mrtuner.bench.pgbench import Load, Run
from mrtuner.bench.record import ArmRecord, Phase, Plan, Record, Sample, from_dict
from mrtuner.errors import BadValue
from mrtuner.stats.paired import Verdict

SETTINGS = {"checkpoint_timeout": "300", "fsync": "on"}


def a_run(tps: float, p99: float = 10.0) -> Run:
    return Run(
        transactions=round(tps * 60),
        failed=0,
        tps=tps,
        latency=Latency(1, 1, 1, 5, p99, 20, 30),
        per_second=(round(tps),) * 58,
        sampling=1.0,
        wall=60.1,
        client_cpu=5.0,
    )


def a_sample(block: int, label: str, run: Run, phase: Phase = "comparison", **other: Any) -> Sample:
    known: dict[str, Any] = {
        "phase": phase,
        "block": block,
        "attempt": 1,
        "position": 1,
        "label": label,
        "arm": label.rstrip("'"),
        "seed": 1,
        "started": "2026-01-01T00:00:00.000+00:00",
        "warmup_tps": None,
        "run": run,
        "checkpoint": 1.0,
        "wal_bytes": 1000,
        "checkpoints_timed": 0,
        "checkpoints_requested": 0,
        "steal": 0.0,
        "foreign": 0.0,
    }
    return Sample(**known | other)


def a_record(samples: Sequence[Sample], script: str = "tpcb", **other: Any) -> Record:
    known: dict[str, Any] = {
        "plan": Plan(load=Load(script=script, seconds=60), blocks=6, seed=1),
        "arms": (ArmRecord(name="a", settings=SETTINGS), ArmRecord(name="b", settings=SETTINGS)),
        "calibration_order": (),
        "order": (),
        "samples": tuple(samples),
        "notes": (),
        "local": True,
        "script": None,
        "host": {},
        "kernel": "Linux",
        "pgbench": "18.6",
        "mrtuner": "0",
        "started": "2026-01-01T00:00:00.000+00:00",
        "ended": "2026-01-01T01:00:00.000+00:00",
    }
    return Record(**known | other)


def six_blocks(gain: float, **of_b: Any) -> list[Sample]:
    """b runs `gain` times as fast as a, give or take a percent."""
    samples = []
    for block, wobble in enumerate((0.99, 1.0, 1.01, 0.99, 1.0, 1.01), 1):
        samples.append(a_sample(block, "a", a_run(1000)))
        samples.append(a_sample(block, "b", a_run(1000 * gain * wobble), **of_b))
    return samples


def test_a_clear_gain_is_better_and_survives_its_debt() -> None:
    judgement = judge(a_record(six_blocks(1.30)))
    assert judgement.verdict is Verdict.BETTER
    assert judgement.throughput.pairs == 6
    assert judgement.throughput.ratio == pytest.approx(1.30, rel=1e-3)


def test_a_gain_that_the_checkpoint_eats_is_undecided() -> None:
    """b is 1.10 times as fast for 60 s and leaves 20 s of checkpoint, a leaves 1 s:
    charged 1.10 x 61 / 80 = 0.839, worse. A window of 60 s is no cycle of 300 s.
    """
    judgement = judge(a_record(six_blocks(1.10, checkpoint=20.0)))
    assert judgement.throughput.verdict is Verdict.BETTER
    assert judgement.charged is not None
    assert judgement.charged.ratio == pytest.approx(0.839, abs=0.001)
    assert judgement.charged.verdict is Verdict.WORSE
    assert judgement.verdict is Verdict.UNDECIDED
    assert any("charged with the checkpoint left behind it is worse" in c for c in
               judgement.cautions)  # fmt: skip


def test_a_window_of_a_whole_cycle_needs_no_charge() -> None:
    quick = (
        ArmRecord(name="a", settings=SETTINGS | {"checkpoint_timeout": "60"}),
        ArmRecord(name="b", settings=SETTINGS | {"checkpoint_timeout": "30"}),
    )
    judgement = judge(a_record(six_blocks(1.10, checkpoint=20.0), arms=quick))
    assert judgement.verdict is Verdict.BETTER
    assert not any("shorter than a checkpoint cycle" in caution for caution in judgement.cautions)


def test_two_checkpoints_in_every_run_make_a_cycle_too() -> None:
    samples = six_blocks(1.1, checkpoints_requested=2)
    assert covers_a_cycle(a_record(samples), "b")
    assert not covers_a_cycle(a_record(samples), "a")
    samples[-1] = replace(samples[-1], checkpoints_requested=1)
    assert not covers_a_cycle(a_record(samples), "b")


def test_a_short_window_is_said_for_each_arm() -> None:
    cautions = judge(a_record(six_blocks(1.3))).cautions
    assert (
        "the window of 60 s is shorter than a checkpoint cycle of b (checkpoint_timeout 300 s):"
        " write settings cannot be judged from this alone"
    ) in cautions


def test_reading_leaves_no_debt() -> None:
    judgement = judge(a_record(six_blocks(1.1, checkpoint=20.0), script="select"))
    assert judgement.charged is None
    assert judgement.verdict is Verdict.BETTER
    assert judgement.cautions == ()


def test_latency_is_better_when_it_is_lower() -> None:
    samples = [
        a_sample(block, label, a_run(1000, p99))
        for block in range(1, 7)
        for label, p99 in (("a", 10 + block / 100), ("b", 20.0))
    ]
    judgement = judge(a_record(samples))
    assert judgement.verdict is Verdict.EQUIVALENT
    assert judgement.p99 is not None
    assert judgement.p99.verdict is Verdict.WORSE
    assert any("slowest hundredth" in caution for caution in judgement.cautions)


def test_a_latency_of_zero_has_no_ratio_and_ends_nothing() -> None:
    """pgbench may see an answer in the turn in which it asked: by its clock no time passed."""
    samples = [a_sample(1, "a", a_run(1000, p99=0.0)), a_sample(1, "b", a_run(2000, p99=1.0))]
    judgement = judge(a_record(samples))
    assert judgement.p99 is None
    assert judgement.throughput.ratio == pytest.approx(2.0)


def test_rejected_runs_do_not_count_and_are_mentioned() -> None:
    wild = [
        a_sample(1, label, a_run(tps), rejected="block repeated: steal 5.0 %, limit 1 %")
        for label, tps in (("a", 10), ("b", 5000))
    ]
    judgement = judge(a_record(wild + six_blocks(1.3)))
    assert judgement.throughput.ratio == pytest.approx(1.30, rel=1e-3)
    assert "1 block was disturbed and repeated; the rejected runs are on record" in (
        judgement.cautions
    )


def test_a_block_that_was_disturbed_twice_counts_as_noisy() -> None:
    cautions = judge(a_record(six_blocks(1.3, foreign=0.2))).cautions
    assert "6 blocks were disturbed again and counted all the same: noisy" in cautions


def test_calibration_speaks_of_the_first_arm_only() -> None:
    """Three pairs, always 5 % apart: an alarm."""
    same = [
        a_sample(block, label, a_run(tps + block), "calibration")
        for block in range(1, 4)
        for label, tps in (("a", 1000), ("a'", 1050))
    ]
    judgement = judge(a_record(same + six_blocks(1.3)))
    assert judgement.calibration is not None
    assert judgement.calibration.pairs == 3
    assert judgement.calibration.false_alarm
    assert any(caution.startswith("calibration saw") for caution in judgement.cautions)
    assert judgement.throughput.pairs == 6


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"local": False}, "the server runs elsewhere"),
        (
            {
                "arms": tuple(
                    ArmRecord(name=name, settings=SETTINGS | {"fsync": "off"}) for name in "ab"
                )
            },
            "fsync is off",
        ),
    ],
)
def test_what_weakens_the_whole_proof_is_said(other: dict[str, Any], said: str) -> None:
    assert any(
        caution.startswith(said) for caution in judge(a_record(six_blocks(1.3), **other)).cautions
    )


def test_few_blocks_are_said() -> None:
    cautions = judge(a_record(six_blocks(1.3)[:8])).cautions
    assert "4 blocks are few: 6 or more make a proof" in cautions


def test_a_load_generator_at_its_limit_is_said() -> None:
    """One thread, 60 s of wall time, 57 s of CPU: 95 %."""
    samples = six_blocks(1.3)
    samples[0] = replace(samples[0], run=replace(samples[0].run, wall=60.0, client_cpu=57.0))
    assert "pgbench used 95 % of its 1 threads: it may have been the bottleneck" in (
        judge(a_record(samples)).cautions
    )


def test_failed_transactions_are_said() -> None:
    samples = six_blocks(1.3)
    samples[0] = replace(samples[0], run=replace(samples[0].run, failed=3))
    assert "3 transactions failed and are not counted" in judge(a_record(samples)).cautions


def test_the_same_verdict_comes_from_the_record_alone() -> None:
    record = a_record(six_blocks(1.1, checkpoint=20.0))
    assert judge(from_dict(json.loads(json.dumps(record.to_dict())))) == judge(record)


def test_a_record_outlives_the_script_it_ran() -> None:
    record = a_record(six_blocks(1.3), script="gone.sql")
    assert judge(from_dict(record.to_dict())).verdict is Verdict.BETTER


def test_the_first_arm_and_unknown_arms_cannot_be_judged() -> None:
    for name in ("a", "c"):
        with pytest.raises(BadValue):
            judge(a_record(six_blocks(1.3)), name)
