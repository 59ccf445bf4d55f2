"""Expected values come from printed tables and arithmetic on paper; see each docstring."""

from __future__ import annotations

import math

import pytest

from mrtuner.errors import BadValue
from mrtuner.stats.comparison import Pair, Verdict, compare, holm


def pairs_of(*logs: float) -> list[Pair]:
    return [(1000.0, 1000.0 * math.exp(value)) for value in logs]


def test_five_pairs_give_the_textbook_interval() -> None:
    """Mean 0.06, s = 0.1 / sqrt(10) = 0.0316228, t(.975, 4) = 2.7764 from the table.

    Half width 2.7764 x 0.0316228 / sqrt(5) = 0.0392649, so exp(0.0207351) to exp(0.0992649).
    """
    seen = compare(pairs_of(0.02, 0.04, 0.06, 0.08, 0.10))
    assert seen.ratio == pytest.approx(1.0618365, rel=1e-6)
    assert seen.sd == pytest.approx(0.0316228, rel=1e-5)
    assert seen.low == pytest.approx(1.020952, abs=2e-6)
    assert seen.high == pytest.approx(1.104359, abs=2e-6)
    assert seen.verdict is Verdict.BETTER
    assert not seen.near_resolution


def test_the_p_value_is_students() -> None:
    """t = 0.06 / 0.0141421 = 4.242641; with 4 degrees of freedom
    F(t) = 1/2 + 3/8 u (1 - u² / 12), u = t / sqrt(1 + t²/4) = 1.809068: p = 0.013236.
    """
    assert compare(pairs_of(0.02, 0.04, 0.06, 0.08, 0.10)).p_value == pytest.approx(
        0.013236, abs=1e-6
    )


def test_the_detectable_effect_adds_both_quantiles() -> None:
    """(2.7764 + t(.80, 4) = 0.9410) x 0.0141421 = 0.052572; exp gives 5.398 %."""
    assert compare(pairs_of(0.02, 0.04, 0.06, 0.08, 0.10)).mde == pytest.approx(0.05398, abs=1e-5)


def test_a_gain_below_the_detectable_effect_is_near_the_resolution() -> None:
    """Mean 0.045 with the spread above: low end 0.045 - 0.0392649 > 0, but 0.045 < 0.052572."""
    seen = compare(pairs_of(0.005, 0.025, 0.045, 0.065, 0.085))
    assert seen.verdict is Verdict.BETTER
    assert seen.near_resolution


def test_pairs_turned_round_give_the_opposite_verdict() -> None:
    pairs = [(b, a) for a, b in pairs_of(0.02, 0.04, 0.06, 0.08, 0.10)]
    assert compare(pairs).verdict is Verdict.WORSE
    assert compare(pairs, higher_is_better=False).verdict is Verdict.BETTER
    assert compare(pairs, higher_is_better=False).ratio == pytest.approx(1 / 1.0618365, rel=1e-6)


def test_an_interval_inside_delta_is_equivalent() -> None:
    """Mean 0, s = 0.01, half width 2.7764 x 0.01 / sqrt(5) = 0.0124 < ln 1.03 = 0.02956."""
    seen = compare(pairs_of(-0.01, 0.01, 0, 0.01, -0.01))
    assert seen.verdict is Verdict.EQUIVALENT
    assert seen.more_blocks is None


def test_a_sure_gain_too_small_to_matter_is_equivalent() -> None:
    """0.01 ± 0.00196: above no difference, yet wholly below 3 %."""
    seen = compare(pairs_of(0.008, 0.009, 0.010, 0.011, 0.012))
    assert seen.low > 1
    assert seen.verdict is Verdict.EQUIVALENT
    assert compare(pairs_of(0.008, 0.009, 0.010, 0.011, 0.012), delta=0.005).verdict is (
        Verdict.BETTER
    )


def test_undecided_says_how_many_blocks_are_missing() -> None:
    """Mean 0.02, s = 0.0316228: too wide. To exclude zero, |mean| = 0.02 is the larger margin
    (0.0296 - 0.02 = 0.0096). With n = 22: (t.975 2.0796 + t.80 0.8591) x s / sqrt(22) = 0.01981;
    with 21: (2.0860 + 0.8600) x s / sqrt(21) = 0.02033. So 22 - 5 = 17 more.
    """
    seen = compare(pairs_of(-0.02, 0, 0.02, 0.04, 0.06))
    assert seen.verdict is Verdict.UNDECIDED
    assert seen.more_blocks == 17


def test_six_pairs_span_all_walsh_averages() -> None:
    """P(W = 0) = 1/64 <= 2.5 % < 2/64: the interval runs from the smallest to the largest.

    Of 1, 2, 4, 8, 16, 32 (in %) the 21 averages have 9 as 11th:
    1 1.5 2 2.5 3 4 4.5 5 6 8 | 8.5 | 9 10 12 16 16.5 17 18 20 24 32.
    """
    seen = compare(pairs_of(0.01, 0.02, 0.04, 0.08, 0.16, 0.32))
    assert seen.hl_low == pytest.approx(math.exp(0.01))
    assert seen.hl_high == pytest.approx(math.exp(0.32))
    assert seen.hodges_lehmann == pytest.approx(math.exp(0.085))


def test_eight_pairs_leave_three_walsh_averages_out_at_each_end() -> None:
    """Wilcoxon's table: 3 is critical for n = 8 at 5 % (5 of 256 sums are at most 3).

    Of 0, 1, …, 7 (in %) the averages start 0, 0.5, 1, 1, …: the fourth is 1; likewise 6 above.
    """
    seen = compare(pairs_of(*(step / 100 for step in range(8))))
    assert seen.hl_low == pytest.approx(math.exp(0.01))
    assert seen.hl_high == pytest.approx(math.exp(0.06))


def test_five_pairs_have_no_exact_signed_rank_interval() -> None:
    seen = compare(pairs_of(0.02, 0.04, 0.06, 0.08, 0.10))
    assert seen.hl_low is None
    assert seen.hl_high is None
    assert not seen.disagreement


def test_one_wild_pair_makes_the_two_opinions_disagree() -> None:
    """Eleven pairs at 0.05 and one at -0.40: mean 0.0125, s = 0.1299, half width
    2.2010 x 0.1299 / sqrt(12) = 0.0825. The wild pair is in 12 averages; for n = 12 the table
    gives 13, so the 14th counts, and that is 0.05.
    """
    seen = compare(pairs_of(*[0.05] * 11, -0.40))
    assert seen.verdict is Verdict.UNDECIDED
    assert seen.hl_low == pytest.approx(math.exp(0.05))
    assert seen.disagreement


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_pairs_are_never_decided(count: int) -> None:
    seen = compare(pairs_of(*[0.5] * count))
    assert seen.verdict is Verdict.UNDECIDED
    assert seen.because == f"{count} of at least 3 pairs"
    assert seen.more_blocks == 6 - count


def test_one_pair_bounds_nothing() -> None:
    seen = compare([(100, 130)])
    assert seen.ratio == pytest.approx(1.3)
    assert (seen.low, seen.high) == (0, math.inf)
    assert seen.p_value == 1


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_value_that_has_no_ratio_is_refused(bad: float) -> None:
    with pytest.raises(BadValue, match="cannot be compared as a ratio"):
        compare([(1.0, 2.0), (bad, 1.0)])


def test_no_pairs_are_refused() -> None:
    with pytest.raises(BadValue, match="no pairs"):
        compare([])


@pytest.mark.parametrize("delta", [0.0, -0.03, 3.0, math.nan])
def test_a_delta_that_is_no_fraction_is_refused(delta: float) -> None:
    with pytest.raises(BadValue, match="delta"):
        compare([(1.0, 2.0)], delta=delta)


def test_identical_runs_are_equivalent_not_an_error() -> None:
    seen = compare([(100.0, 100.0)] * 4)
    assert seen.verdict is Verdict.EQUIVALENT
    assert (seen.low, seen.high, seen.p_value) == (1, 1, 1)


def test_calibration_gives_the_noise_and_no_alarm() -> None:
    """Mean 0, s = 0.01; mde (2.7764 + 0.9410) x 0.01 / sqrt(5) = 0.016625; exp gives 1.676 %."""
    noise = compare(pairs_of(-0.01, 0.01, 0, 0.01, -0.01))
    assert noise.sd == pytest.approx(0.01)
    assert noise.mde == pytest.approx(0.016764, abs=2e-6)
    assert not noise.false_alarm


def test_calibration_raises_the_alarm_when_nothing_seems_to_differ_surely() -> None:
    assert compare(pairs_of(0.02, 0.04, 0.06, 0.08, 0.10)).false_alarm


def test_holm_steps_down_and_keeps_the_order_given() -> None:
    """Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1: 0.02, 0.03, 0.06, 0.04 raised to 0.06."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_never_exceeds_one() -> None:
    assert holm([0.6, 0.9]) == [1, 1]
    assert holm([]) == []


def test_holm_refuses_what_is_no_probability() -> None:
    with pytest.raises(BadValue):
        holm([0.5, math.nan])
