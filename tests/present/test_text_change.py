"""A plan of change and a proof's verdict, in words."""

from __future__ import annotations

from dataclasses import replace

from mrtuner.bench.judge import Judgement
from mrtuner.change.settings.plan import LeftAlone, Plan, Step
from mrtuner.present.text import Look, plan_of_change, verdict
from mrtuner.stats.paired import Calibration, compare

STEP = Step(
    name="work_mem", value="16MB", before="4MB", in_force="4096", restart=False, lowers=False
)


def test_a_plan_tells_what_is_written_and_what_it_takes() -> None:
    steps = (STEP, replace(STEP, name="shared_buffers", value="4GB", before="128MB", restart=True))
    assert list(plan_of_change(Plan(steps=steps), Look())) == [
        "",
        "the plan",
        "  setting         now    becomes  in force after",
        "  work_mem        4MB    16MB     a reload",
        "  shared_buffers  128MB  4GB      a restart",
    ]


def test_a_plan_tells_what_is_left_alone_and_what_must_not_be() -> None:
    left = LeftAlone(name="jit", value="off", why="it is set on the command line")
    unsafe = LeftAlone(name="max_connections", value="50", why="this is a standby")
    plan = Plan(steps=(), left_alone=(left,), refused=(unsafe,), elsewhere="Edit the manifest.")
    assert list(plan_of_change(plan, Look())) == [
        "",
        "left alone",
        "  jit = off: it is set on the command line",
        "",
        "must not be done",
        "  max_connections = 50: this is a standby",
        "  Edit the manifest.",
    ]


def test_what_is_noted_of_a_step_stands_beside_it() -> None:
    step = replace(STEP, notes=("ALTER ROLE app SET work_mem = '1GB' beats it there",))
    assert list(plan_of_change(Plan(steps=(step,)), Look()))[-1] == (
        "  work_mem  4MB  16MB     a reload; ALTER ROLE app SET work_mem = '1GB' beats it there"
    )


#: Ratios 1.9, 2.0, 2.1, 2.0 of B to A: clearly better, about twice.
PAIRS = [(100.0, 190.0), (100.0, 200.0), (100.0, 210.0), (100.0, 200.0)]


def judged(pairs: list[tuple[float, float]]) -> Judgement:
    seen = compare(pairs)
    return Judgement(
        baseline="current",
        candidate="advised",
        verdict=seen.verdict,
        throughput=seen,
        charged=None,
        p99=None,
        calibration=None,
        cautions=("4 blocks are few",),
    )


def test_a_verdict_says_how_much_with_its_interval_and_its_cautions() -> None:
    lines = list(verdict(judged(PAIRS), Look()))
    assert lines[0].startswith("better: advised has 2.00 times the throughput (95 % interval 1.8")
    assert lines[0].endswith(", 4 blocks)")
    assert lines[-1] == "  caution: 4 blocks are few"


def test_an_undecided_verdict_says_how_many_more_blocks_it_takes() -> None:
    lines = list(verdict(judged([(100.0, 100.0), (100.0, 120.0), (100.0, 108.0)]), Look()))
    assert lines[0] == "undecided: no difference shown", "no ratio in the headline"
    assert lines[1].startswith("  advised has 1.09 times the throughput")
    assert lines[2].endswith(" more blocks would decide")


def test_calibration_is_told_with_its_own_interval() -> None:
    same = Calibration(
        pairs=3, ratio=1.01, low=0.98, high=1.04, sd=0.01, mde=0.05, false_alarm=False
    )
    lines = list(verdict(replace(judged(PAIRS), calibration=same), Look(width=200)))
    told = "calibration, the same settings twice in 3 blocks: 1.01 times"
    assert f"  {told} (95 % interval 0.98 to 1.04)" in lines


def test_a_single_pair_has_no_interval_and_says_so() -> None:
    lines = list(verdict(judged([(100.0, 160.0)]), Look(width=200)))
    assert lines[1] == (
        "  advised has 1.60 times the throughput (no interval from a single pair, 1 block)"
    )
    assert not any("inf" in line for line in lines)
