"""Searches on a simulated surface: better than chance where there is a gain, and honest."""

from __future__ import annotations

from statistics import median

import pytest
from search_surface import ADVICE, Surface, flat, new_search, procedure, truth

from mrtuner.search.model import Search
from mrtuner.stats.comparison import Verdict


def found(seed: int, *, at_random: bool = False) -> Search:
    search = new_search(seed)
    return procedure(search, Surface(seed), at_random=at_random).run()


def candidate_gain(search: Search) -> float:
    """The true gain of what was proposed, without noise."""
    return truth(search.side(search.candidate or 0)) - truth(ADVICE)


def test_the_surface_has_something_to_find() -> None:
    """By hand: 8 GB saturate the WAL (+5.9 %), 2 GB the buffers (+2.3 %), and so on."""
    best = dict(ADVICE) | {
        "max_wal_size": "4GB", "shared_buffers": "2GB", "commit_delay": "150",
        "wal_compression": "pglz", "effective_io_concurrency": "64", "io_workers": "8",
    }  # fmt: skip
    # saturation 0.15 (e^-0.5 - e^-2) = 0.0707; buffers 0.10 (e^-1 - e^-2) = 0.0233;
    # delay 0.06; compression 0.05; reads 0.08 (1 - e^-(1 + 2.002) / 2) = 0.0622
    assert truth(best) - truth(ADVICE) == pytest.approx(0.266, abs=0.001)
    over = best | {"shared_buffers": "4GB"}
    assert truth(over) - truth(best) < -0.5


def test_the_model_beats_random_search_from_the_same_advice() -> None:
    seeds = range(1, 10)
    ours = [candidate_gain(found(seed)) for seed in seeds]
    chance = [candidate_gain(found(seed, at_random=True)) for seed in seeds]
    assert median(ours) > median(chance) > 0
    assert min(ours) > -0.01, "the search never ends below the advice"


def test_a_gain_is_confirmed_and_its_interval_has_the_truth() -> None:
    results = [found(seed) for seed in range(1, 10)]
    confirmed = [one for one in results if one.result is not None and one.result.found]
    assert len(confirmed) >= 7
    covered = 0
    for one in confirmed:
        assert one.confirmation is not None
        assert one.confirmation.low is not None
        assert one.confirmation.high is not None
        true = 2.718281828 ** candidate_gain(one)
        covered += one.confirmation.low <= true <= one.confirmation.high
    assert covered >= len(confirmed) - 2  # 95 % each


def test_where_nothing_matters_nothing_is_found() -> None:
    """One-sided 2.5 %: of 80 searches 2 are expected, and 7 or more have a chance of 0.4 %."""
    false = 0
    for seed in range(80):
        done = procedure(new_search(seed, minutes=20), Surface(seed, flat, noise=0.05)).run()
        assert done.confirmation is not None
        assert done.confirmation.pairs >= 6
        false += done.confirmation.verdict is Verdict.BETTER
    assert false <= 6


def test_nothing_found_says_what_would_have_been_seen() -> None:
    done = procedure(new_search(3, minutes=20), Surface(3, flat, noise=0.05)).run()
    assert done.result is not None
    assert not done.result.found
    assert done.result.settings == {}
    assert done.result.differences == ()
    assert "nothing better than the advice was found" in done.result.headline
    assert "on would have been seen" in done.result.headline
