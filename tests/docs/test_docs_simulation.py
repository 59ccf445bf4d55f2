"""The simulation that the design of benchmarks rests on, and its table in the docs."""

from __future__ import annotations

from pathlib import Path

from docs.simulate_benchmarks import SimulatedMachine, simulate, table


def called(pairs: int, effect: float = 0.0) -> dict[str, float]:
    """Share of the benchmarks that report a difference, by method."""
    return {one.way: one.called for one in simulate(pairs, SimulatedMachine(), effect=effect)}


def test_blocks_keep_their_promise_where_one_arm_after_the_other_does_not() -> None:
    """Nominal 5 %. The reference's own simulation had 5 % and 41 % for ten pairs; the standard
    error of 5 % over 1,500 is 0.6."""
    found = called(10)
    assert 0.03 <= found["blocks, paired t"] <= 0.07
    assert found["A…A B…B, bootstrap of medians"] > 0.3


def test_few_pairs_make_the_bootstrap_too_bold() -> None:
    """The reference found 26 % with three pairs, where the paired t test has 6 %."""
    found = called(3)
    assert found["blocks, bootstrap of pairs"] > 0.15
    assert 0.03 <= found["blocks, paired t"] <= 0.07


def test_a_planted_difference_is_found() -> None:
    """Drift of 5 % with an autocorrelation of 0.9 moves sqrt(2 (1 - 0.9)) x 5 % = 2.2 % between two
    neighbours; with noise of 2 % on both, s = 3.6 % and t = 4.9 % / (3.6 % / sqrt(10)) = 4.3."""
    assert called(10, effect=0.05)["blocks, paired t"] > 0.9


def test_the_page_shows_what_the_simulation_gives() -> None:
    page = Path(__file__).parents[2] / "docs" / "concepts" / "measuring.md"
    assert "\n".join(table([3, 10])).strip() in page.read_text(encoding="utf-8")
