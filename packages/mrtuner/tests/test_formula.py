"""Expressions: the number, the words and the base unit come from one object."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrtuner.formula.expression import CPUS, MEMORY, MissingVariable, greatest, least, total

GIB = 1024**3


def test_a_quarter_in_pages_is_one_division() -> None:
    """By hand: 1/4 of memory in 8 kB pages is memory / 32768 (field notes, section 2)."""
    pages = (MEMORY / 4).in_unit(8192)
    assert pages.prose() == "memory / 32768"
    assert pages.evaluate({"memory": 16 * GIB}) == 524_288


def test_three_quarters_in_pages_is_one_multiplication_and_one_division() -> None:
    pages = (MEMORY * 75 / 100).in_unit(8192)
    assert pages.prose() == "memory * 3 / 32768"
    assert pages.evaluate({"memory": 15 * GIB}) == 1_474_560


def test_work_mem_for_200_connections_on_an_m1_xlarge_is_about_74_mb() -> None:
    """Field notes: memory / 204800 in kB, on 924 MB * 16 = 15,137,505,280 bytes or so."""
    kilobytes = (MEMORY / 200).in_unit(1024)
    assert kilobytes.prose() == "memory / 204800"
    assert kilobytes.evaluate({"memory": 924 * 1024 * 16384}) == 75_694  # 73.9 MB


def test_least_and_greatest_follow_the_machine() -> None:
    cap = least(MEMORY / 16, GIB)
    assert cap.evaluate({"memory": 8 * GIB}) == GIB // 2
    assert cap.evaluate({"memory": 64 * GIB}) == GIB
    assert greatest(8, CPUS + 4).evaluate({"cpus": 2}) == 8
    assert greatest(8, CPUS + 4).evaluate({"cpus": 64}) == 68


def test_a_negated_least_is_a_greatest() -> None:
    """-least(a, b) = greatest(-a, -b): 10 GB less the least of 4 and 1 leaves 9."""
    rest = total(MEMORY, least(MEMORY / 4, GIB) * -1)
    assert rest.evaluate({"memory": 10 * GIB}) == 9 * GIB


def test_like_terms_are_folded() -> None:
    assert (MEMORY * Fraction(9, 10) - MEMORY / 4).prose() == "memory * 13 / 20"
    assert (MEMORY / 4 - MEMORY / 4).evaluate({}) == 0
    assert total(MEMORY, 3, 4).prose() == "memory + 7"


def test_an_unknown_machine_names_what_is_missing() -> None:
    with pytest.raises(MissingVariable, match="cpus"):
        (CPUS / 2).evaluate({"memory": GIB})


@given(st.integers(2**29, 2**42), st.integers(1, 1000), st.integers(1, 1000), st.integers(1, 2**20))
def test_one_floor_at_the_end_and_none_before(
    memory: int, numerator: int, denominator: int, unit: int
) -> None:
    """Judged by Python's exact fractions."""
    value = (MEMORY * numerator / denominator).in_unit(unit).evaluate({"memory": memory})
    exact = Fraction(memory * numerator, denominator * unit)
    assert value <= exact < value + 1
