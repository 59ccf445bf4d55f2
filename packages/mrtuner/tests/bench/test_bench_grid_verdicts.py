"""Verdicts over the cells of records made by hand; the arithmetic is in each docstring."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from msgspec import structs

from bench_grids import (
    SETTINGS,
    a_grid,
    a_plan,
    a_record,
    a_run,
    a_sample,
    six_blocks,
    with_rejected,
)
from mrtuner.bench.plan.cells import cells
from mrtuner.bench.plan.model import GridCell, Variant, Workload
from mrtuner.bench.record.model import unlike
from mrtuner.bench.verdict.judge import blocks_of, verdicts
from mrtuner.bench.verdict.summary import differing_settings, summaries
from mrtuner.stats.comparison import Verdict
from mrtuner.stats.histogram import Histogram

CELL = GridCell("select", 10, 4)


def test_each_cell_has_its_own_verdict() -> None:
    """Ratios wobble by 0.9 %: 1.3, 0.8 and 1.0 are far beyond chance or well within 3 %."""
    found = verdicts(a_grid([1.3, 1.0, 0.8, 1.0]))
    assert [one.verdict for one in found] == ["better", "equivalent", "worse", "equivalent"]
    assert found[0].comparison.ratio == pytest.approx(1.3, rel=1e-3)
    assert blocks_of(a_grid([1.3, 1.0, 0.8, 1.0]), found[0])[0][:2] == (1, 1000)


def test_p_values_are_adjusted_for_the_number_of_cells() -> None:
    """Alone p = 0.041: b / a is 1.01, 1.00, 1.02, 1.00, 1.02, 1.01 in logs of mean 0.00993 and
    sd 0.00889; t = 2.73 with 5 degrees of freedom. Four times that p no
    longer gives a verdict.

    At 5 % / 4 = 1.25 %, n blocks detect (t(0.99375) + t(0.8)) x 0.00886 / sqrt(n), with n - 1
    degrees of freedom: 11 blocks 3.92 x 0.00267 = 0.0105, 12 blocks 3.86 x 0.00256 = 0.0099. So
    it takes six more."""
    ratios = (1.01, 1.0, 1.02, 1.0, 1.02, 1.01)
    runs = [
        a_sample(CELL, block, label, 1000 * (ratio if label == "b" else 1))
        for block, ratio in enumerate(ratios, 1)
        for label in ("a", "b")
    ]
    alone = verdicts(a_record(runs, a_plan(delta=0.001)))
    assert alone[0].p_holm == pytest.approx(0.041, abs=0.002)
    assert alone[0].verdict is Verdict.BETTER
    plan = a_plan(scales=(10, 20, 30, 40), delta=0.001)
    flat = [
        structs.replace(run, cell=cell, run=a_run(1000 * WOBBLY[i % 12]))
        for cell in cells(plan)[1:]
        for i, run in enumerate(runs)
    ]
    among = verdicts(a_record([*runs, *flat], plan))
    assert among[0].p_holm == pytest.approx(4 * alone[0].p_holm)
    assert among[0].verdict is Verdict.UNDECIDED
    assert (alone[0].more_blocks, among[0].more_blocks) == (None, 6)
    assert any("by itself this cell would be better" in text for text in among[0].cautions)


#: Neither variant is ahead over the blocks.
WOBBLY = (1.0, 1.02, 1.02, 1.0, 1.0, 1.01, 1.01, 1.0, 1.0, 1.03, 1.03, 1.0)


def test_a_gain_that_the_checkpoint_eats_is_undecided() -> None:
    """b is 1.1 times as fast for 60 s and leaves 20 s of checkpoint, a leaves 0.5 s:
    1.1 x 60.5 / 80 = 0.83 with it. A window of 60 s does not cover a cycle of 300 s."""
    cell = GridCell("tpcb", 10, 4)
    plan = a_plan(workloads=(Workload(name="tpcb", builtin="tpcb"),))
    runs = six_blocks(cell, 1.1, checkpoint=20.0)
    long = {name: SETTINGS | {"checkpoint_timeout": "300"} for name in ("a", "b")}
    assert verdicts(a_record(runs, plan, settings=long))[0].verdict is Verdict.UNDECIDED
    assert verdicts(a_record(runs, plan))[0].verdict is Verdict.BETTER


def test_at_a_given_rate_latency_is_judged() -> None:
    """Both serve 500 tps; b's 99th percentile is 1.5 ms against 3 ms."""
    cell = GridCell("select", 10, 4, "500")
    plan = a_plan(rates=("500",))
    runs = [
        a_sample(cell, block, label, 500, times=Histogram(((1000, 980), (p99 + block * 10, 20))))
        for block in range(1, 7)
        for label, p99 in (("a", 3000), ("b", 1500))
    ]
    found = verdicts(a_record(runs, plan))[0]
    assert found.measure == "p99 latency"
    assert found.verdict is Verdict.BETTER
    assert found.comparison.ratio == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("skipped", "verdict", "said"),
    [
        (15_000, Verdict.UNDECIDED, "50 % of the transactions of 'b' were too late to be begun"),
        (100, Verdict.BETTER, None),
    ],
)
def test_a_side_that_skips_what_is_late_has_no_percentile_of_all(
    skipped: int, verdict: Verdict, said: str | None
) -> None:
    """30,000 were due in a minute at 500 tps: 15,000 of them are half, 100 less than 1 %."""
    cell = GridCell("select", 10, 4, "500")
    plan = a_plan(rates=("500",), latency_limit=50)
    runs = []
    for block in range(1, 7):
        slow = Histogram(((1000, 980), (3000 + block * 10, 20)))
        fast = Histogram(((1000, 980), (1500 + block * 10, 20)))
        served = 500 - skipped / 60
        runs.append(a_sample(cell, block, "a", 500, times=slow))
        runs.append(a_sample(cell, block, "b", served, times=fast, skipped=skipped))
    found = verdicts(a_record(runs, plan))[0]
    assert (found.measure, found.verdict) == ("p99 latency", verdict)
    assert found.refused == ((f"{said}: its p99 is not known",) if said else ())


@pytest.mark.parametrize(("skipped", "known"), [(31_000, False), (29_000, True)])
def test_a_median_is_known_while_more_than_half_was_begun(skipped: int, known: bool) -> None:
    """Of 60,000 that were due, 31,000 are more than half, 29,000 are less."""
    cell, few = GridCell("select", 10, 4, "1000"), Histogram(((1000, 30),))
    late = {"times": few, "skipped": skipped}
    runs = []
    for block in range(1, 7):
        runs.append(a_sample(cell, block, "a", (60_000 - skipped) / 60, **late))
        runs.append(a_sample(cell, block, "b", 1000, times=few))
    found = verdicts(a_record(runs, a_plan(rates=("1000",))))[0]
    assert found.measure == "median latency"
    assert any("'a' were too late to be begun: its median" in why for why in found.refused) is not (
        known
    )


def test_a_workload_may_be_judged_by_its_longest_pause() -> None:
    """The longest pause is 5 s with a and 0.1 s with b.

    How throughput varies, and what the checkpoint costs afterwards, would matter only for a
    verdict on throughput, and there is none.
    """
    cell = GridCell("tpcb", 10, 4)
    workload = Workload(name="tpcb", builtin="tpcb", judged_by="longest pause")
    runs = [
        a_sample(cell, block, label, 1000 * block, pause=pause + block / 100, checkpoint=checkpoint)
        for block in range(1, 7)
        for label, pause, checkpoint in (("a", 5.0, 0.5), ("b", 0.1, 20.0))
    ]
    found = verdicts(a_record(runs, a_plan(workloads=(workload,))))[0]
    assert (found.measure, found.verdict) == ("longest pause", Verdict.BETTER)
    assert 0.02 < found.comparison.ratio < 0.04
    assert found.with_checkpoint is None
    assert found.refused == ()
    by_throughput = a_plan(workloads=(Workload(name="tpcb", builtin="tpcb"),))
    assert verdicts(a_record(runs, by_throughput))[0].verdict is not Verdict.BETTER


def test_with_few_transactions_the_median_has_to_do() -> None:
    cell = GridCell("select", 10, 4, "500")
    few = Histogram(((1000, 30),))
    runs = [a_sample(cell, n, label, 500, times=few) for n in range(1, 7) for label in ("a", "b")]
    assert verdicts(a_record(runs, a_plan(rates=("500",))))[0].measure == "median latency"


def test_runs_that_scatter_within_their_blocks_forbid_a_verdict() -> None:
    """Ratios 2, 3.2, 2, 3.2, …: median 2.6, MAD 0.6, robust CV 34 %; of one run 34 % / 1.41."""
    runs = [
        a_sample(CELL, block, label, 1000 * ((2, 3.2)[block % 2] if label == "b" else 1))
        for block in range(1, 7)
        for label in ("a", "b")
    ]
    found = verdicts(a_record(runs))[0]
    assert found.verdict is Verdict.UNDECIDED
    assert found.refused == ("runs within a block vary by 24 % (robust CV), more than 15 %",)


def test_a_machine_that_slows_both_sides_of_a_block_is_a_caution_and_no_more() -> None:
    """a's runs: 1000, 1400, 1000, 1400, …: median 1200, MAD 200, robust CV 25 %; b's are twice."""
    runs = [
        a_sample(CELL, block, label, (1000, 1400)[block % 2] * (2 if label == "b" else 1))
        for block in range(1, 7)
        for label in ("a", "b")
    ]
    found = verdicts(a_record(runs))[0]
    assert found.comparison.ratio == pytest.approx(2)
    assert (found.verdict, found.refused) == (Verdict.BETTER, ())
    assert "runs of 'a' vary by 25 % (robust CV)" in found.cautions


def test_of_few_blocks_each_side_s_runs_may_not_scatter() -> None:
    """Three equal ratios may be chance. a's runs: 1000, 1200, 1400: MAD 200, robust CV 25 %."""
    runs = [
        a_sample(CELL, block, label, (1000, 1200, 1400)[block - 1] * (2 if label == "b" else 1))
        for block in range(1, 4)
        for label in ("a", "b")
    ]
    found = verdicts(a_record(runs))[0]
    assert found.verdict is Verdict.UNDECIDED
    assert found.refused[0] == "runs of 'a' vary by 25 % (robust CV), more than 15 %"


def test_a_saturated_pgbench_forbids_a_verdict() -> None:
    busy = [
        structs.replace(run, run=replace(run.run, client_cpu=57.0)) for run in six_blocks(CELL, 1.3)
    ]
    found = verdicts(a_record(busy))[0]
    assert found.verdict is Verdict.UNDECIDED
    assert "pgbench was busy 95 % of the time" in found.refused[0]


def test_a_bound_says_that_it_is_one() -> None:
    variants = (Variant(name="a"), Variant(name="b", settings={"fsync": "off"}, bound=True))
    found = verdicts(a_record(six_blocks(CELL, 3.0), a_plan(variants=variants)))[0]
    assert any("never advice" in text for text in found.cautions)


def test_rejected_runs_do_not_count_and_stay() -> None:
    record = with_rejected(a_record(six_blocks(CELL, 1.3)), "busy")
    assert len(record.samples) == 13
    assert verdicts(record)[0].comparison.pairs == 6


def test_a_run_that_changes_half_way_is_not_steady() -> None:
    """600 tps and then 1,200: 100 % more."""
    run = replace(a_run(1000), per_second=(600,) * 29 + (1200,) * 29)
    moving = [
        structs.replace(one, run=run) if one.label == "a" else one for one in six_blocks(CELL, 1.0)
    ]
    cautions = verdicts(a_record(moving))[0].cautions
    assert any("6 of 6 runs of 'a' were not steady" in text for text in cautions)
    assert any("by up to 100 %" in text for text in cautions)


def test_uneven_checkpoints_are_told() -> None:
    """a met one in each of six blocks, b four."""
    cautions = verdicts(a_record(six_blocks(CELL, 1.0, checkpoints_requested=3)))[0].cautions
    assert "in 6 blocks the numbers of checkpoints differ by more than one" in cautions
    even = verdicts(a_record(six_blocks(CELL, 1.0, checkpoints_requested=1)))[0].cautions
    assert not any("numbers of checkpoints" in text for text in even)


def test_summaries_merge_latencies_and_take_medians() -> None:
    """Six runs of 1,001 transactions: enough for p99 (1,000), not for p99.9 (10,000)."""
    side = summaries(a_record(six_blocks(CELL, 1.0)))[0]
    assert (side.variant, side.runs, side.tps) == ("a", 6, 1000)
    assert side.tps_with_checkpoint == pytest.approx(60_000 / 60.5)
    assert side.times.total == 6006
    assert side.percentiles["p50"] == 1000
    assert side.percentiles["p99"] == 2000
    assert side.percentiles["p99.9"] is None
    assert side.longest == 50_000


def test_settings_that_differ_are_listed() -> None:
    settings = {"a": SETTINGS, "b": SETTINGS | {"work_mem": "8192", "port": "5433"}}
    record = a_record(six_blocks(CELL, 1.0), settings=settings)
    assert list(differing_settings(record)) == [("work_mem", ("not there", "8192"))]


def test_runs_of_other_hosts_kernels_or_versions_are_unlike() -> None:
    one = a_record(six_blocks(CELL, 1.0))
    assert (
        unlike(one, replace(one, host={**one.host, "disk_free": {"value": 9, "source": ""}})) == []
    )
    more = {"cpus": {"value": 4, "source": "by hand"}}
    newer = {name: SETTINGS | {"server_version": "19.0"} for name in ("a", "b")}
    machines = [{"vm": {"value": {"ram": 8, "committed": c}, "source": ""}} for c in (1, 2)]
    assert unlike(*(replace(one, host=each) for each in machines)) == []
    assert unlike(one, replace(one, kernel="Linux 7.0")) == ["kernel Linux 6.1 against Linux 7.0"]
    assert "cpus 2 against 4" in unlike(one, replace(one, host=more))
    assert "PostgreSQL of a 18.6 against 19.0" in unlike(one, replace(one, settings=newer))


def test_over_many_grids_without_a_difference_few_call_one() -> None:
    """Four cells, ten blocks, a drifting machine: at most 5 % of the grids may call anything.

    Two standard errors above 5 % over 300 grids: 7.5 %. Delta is out of reach, so that no cell
    is called equivalent before it can be called different.
    """
    chance = np.random.default_rng(4)
    plan = a_plan(scales=(1, 2, 3, 4), blocks=10, delta=0.001)
    alarms = 0
    for _ in range(300):
        runs = []
        for cell in cells(plan):
            drift = np.cumsum(chance.normal(0, 0.01, 10))
            for block in range(10):
                for label in ("a", "b"):
                    log = drift[block] + chance.normal(0, 0.02)
                    runs.append(a_sample(cell, block + 1, label, 1000 * float(np.exp(log))))
        found = verdicts(a_record(runs, plan))
        alarms += any(one.verdict in (Verdict.BETTER, Verdict.WORSE) for one in found)
    assert alarms / 300 <= 0.075


def test_cells_come_in_the_order_of_the_plan() -> None:
    found = verdicts(a_grid([1.0, 1.0, 1.0, 1.0]))
    assert all(left.cell < right.cell for left, right in pairwise(found))
