"""Which pairs are tried, and which of them are siblings."""

from __future__ import annotations

import os
from itertools import combinations

from machine import needs
from mrtuner.cpu.model import Mode
from mrtuner.cpu.pairs import judge, to_try, tried

CALM = dict.fromkeys(combinations(range(4), 2), 0.5)


def siblings(solo: float, together: dict[tuple[int, int], float]) -> list[tuple[int, int]]:
    return [(each.first, each.second) for each in judge(solo, together) if each.siblings]


def test_all_pairs_of_sixteen_cpus_are_tried() -> None:
    """16 x 15 / 2."""
    assert len(to_try(range(16))) == 120


def test_of_many_cpus_those_with_the_first_four_are_tried() -> None:
    """Of 64: 63 + 62 + 61 + 60; each of the four meets every other."""
    pairs = to_try(range(64))
    assert len(pairs) == 246
    assert {b for a, b in pairs if a == 2} == set(range(3, 64))


def test_pairs_that_stand_out_are_siblings() -> None:
    """0 with 2, 1 with 3: 0.8 s instead of 0.5 s."""
    together = CALM | {(0, 2): 0.8, (1, 3): 0.82}
    assert siblings(0.5, together) == [(0, 2), (1, 3)]
    assert judge(0.5, together)[1].inflation == 1.6


def test_a_clock_that_falls_with_two_at_work_makes_no_siblings() -> None:
    """All six pairs take 0.7 s where one alone takes 0.5 s."""
    assert siblings(0.5, dict.fromkeys(CALM, 0.7)) == []


def test_two_cpus_are_judged_by_one_alone() -> None:
    """The smallest instance: two threads of one core."""
    assert siblings(0.5, {(0, 1): 0.75}) == [(0, 1)]
    assert siblings(0.5, {(0, 1): 0.55}) == []


def test_one_cpu_has_no_pairs() -> None:
    assert to_try([3]) == []
    assert judge(0.5, {}) == ()


@needs("/proc", "two CPUs")
def test_a_real_pair_of_cpus_is_tried() -> None:
    """Half a second of work; a busy machine makes it wait, which is not CPU time."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    said: list[str] = []
    solo, (pair,) = tried(Mode.INTEGER, cpus, tell=said.append)
    assert said == ["pairs of CPUs to try: 1"]
    assert 0.2 < solo < 1.5
    assert (pair.first, pair.second) == tuple(cpus)
    assert 0.6 < pair.inflation < 3
