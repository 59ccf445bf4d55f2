"""What a search may claim: written by hand, one confirmation and one ablation at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from search_surface import ADVICE, SERVER, new_search

from mrtuner.search.conclusion import conclude
from mrtuner.search.model import Costs, Measured, Search, SearchResult, Trial, Worth
from mrtuner.stats.comparison import Verdict

WINNER = ADVICE | {"max_wal_size": "4GB", "commit_delay": "150"}


def measured(verdict: Verdict, ratio: float, **other: Any) -> Measured:
    known: dict[str, Any] = {
        "verdict": verdict, "ratio": ratio, "low": ratio - 0.02, "high": ratio + 0.02, "pairs": 8,
        "detectable": 0.031, "refused": (), "cautions": (), "seconds": 100.0,
    }  # fmt: skip
    return Measured(**known | other)


def a_search(confirmation: Measured | None) -> Search:
    search = new_search(1)
    search.trials = [
        Trial(
            number=1, origin="proposed", settings=dict(WINNER), place={}, against=0,
            pairs=((100.0, 200.0),), outcome="better", because="", score=0.69, seconds=1.0,
        )
    ]  # fmt: skip
    search.candidate, search.confirmation = 1, confirmation
    return search


def concluded(search: Search) -> SearchResult:
    return conclude(search, SERVER, lambda side: Costs(memory=len(side), replay=None))


def test_only_the_confirmed_figure_is_reported_not_that_of_the_trial() -> None:
    found = concluded(a_search(measured(Verdict.BETTER, 1.08)))
    assert found.headline == (
        "+8.0 % (+6.0 % to +10.0 %) against the advice, "
        "by max_wal_size = 4GB and commit_delay = 150"
    )
    assert found.settings == WINNER
    assert [(one.name, one.advice, one.value, one.restart) for one in found.differences] == [
        ("max_wal_size", "1GB", "4GB", False), ("commit_delay", "0", "150", False),
    ]  # fmt: skip
    assert (found.before, found.after) == (
        Costs(memory=4, replay=None), Costs(memory=5, replay=None),
    )  # fmt: skip


@pytest.mark.parametrize("verdict", [Verdict.UNDECIDED, Verdict.EQUIVALENT, Verdict.WORSE])
def test_what_is_not_confirmed_is_not_found(verdict: Verdict) -> None:
    found = concluded(a_search(measured(verdict, 1.02)))
    assert (found.found, found.settings, found.differences) == (False, {}, ())
    assert found.headline == (
        "nothing better than the advice was found in 1 trial; the closest, in fresh pairs: "
        "+2.0 % (+0.0 % to +4.0 %); of it, a gain from 3.1 % on would have been seen"
    )


def test_a_single_pair_has_no_interval_and_no_bound_is_made_up() -> None:
    seen = measured(Verdict.UNDECIDED, 1.02, low=None, high=None, detectable=None, pairs=1)
    assert concluded(a_search(seen)).headline == (
        "nothing better than the advice was found in 1 trial; the closest, in fresh pairs: "
        "+2.0 % (one pair, so no interval)"
    )


def test_a_setting_that_is_worth_little_goes_only_if_the_rest_is_confirmed_too() -> None:
    search = a_search(measured(Verdict.BETTER, 1.08))
    search.ablation = [
        Worth(name="max_wal_size", advice="1GB", value="4GB",
              measured=measured(Verdict.BETTER, 1.07)),
        Worth(name="commit_delay", advice="0", value="150",
              measured=measured(Verdict.UNDECIDED, 1.009)),
    ]  # fmt: skip
    search.reduced = measured(Verdict.UNDECIDED, 1.07)
    assert concluded(search).settings == WINNER
    search.reduced = measured(Verdict.BETTER, 1.07)
    found = concluded(search)
    assert found.settings == ADVICE | {"max_wal_size": "4GB"}
    assert found.headline == "+7.0 % (+5.0 % to +9.0 %) against the advice, by max_wal_size = 4GB"


def test_fewer_settings_replace_the_winner_only_if_they_measured_as_much() -> None:
    """1.20 / 1.01 = 1.188; that the interval reaches further is no reason."""
    search = a_search(measured(Verdict.BETTER, 1.20))
    search.ablation = [
        Worth(name="commit_delay", advice="0", value="150",
              measured=measured(Verdict.UNDECIDED, 1.009)),
    ]  # fmt: skip
    search.reduced = measured(Verdict.BETTER, 1.187, low=1.05, high=1.35)
    assert concluded(search).settings == WINNER
    search.reduced = measured(Verdict.BETTER, 1.189, low=1.12, high=1.26)
    assert concluded(search).settings == ADVICE | {"max_wal_size": "4GB"}


def test_more_than_three_settings_are_counted() -> None:
    search = a_search(measured(Verdict.BETTER, 1.08))
    search.trials[0].settings.update(io_workers="8", wal_compression="pglz")
    assert concluded(search).headline.endswith(" against the advice, by 4 settings")


def test_a_gain_without_a_verdict_says_what_forbids_it() -> None:
    seen = measured(
        Verdict.UNDECIDED, 1.307, low=1.036, high=1.649,
        refused=("runs within a block vary by 36 % (robust CV), more than 15 %",),
    )  # fmt: skip
    found = concluded(a_search(seen))
    assert not found.found
    assert found.headline == (
        "nothing better than the advice is confirmed: +30.7 % (+3.6 % to +64.9 %) in fresh pairs, "
        "but runs within a block vary by 36 % (robust CV), more than 15 %"
    )


def test_a_default_that_won_is_named_or_apply_would_leave_the_advice() -> None:
    """As of PgTune, whose values leave settings alone that the advice sets; 1 GB is the default."""
    search = a_search(measured(Verdict.BETTER, 1.08))
    search.trials[0].settings.clear()
    search.trials[0].settings.update(shared_buffers="2GB")
    assert concluded(search).settings == {
        "shared_buffers": "2GB", "effective_io_concurrency": "16", "wal_buffers": "-1",
    }  # fmt: skip


def test_a_gain_that_is_sure_and_small_is_not_called_unseen() -> None:
    seen = measured(Verdict.EQUIVALENT, 1.02, low=1.014, high=1.027, detectable=0.009)
    assert concluded(a_search(seen)).headline.endswith(
        "+2.0 % (+1.4 % to +2.7 %), which is less than counts"
    )


def test_without_a_fresh_pair_the_reason_is_told() -> None:
    found = "nothing better than the advice was found: "
    search = a_search(None)
    assert concluded(search).headline == f"{found}no fresh pair of trial 1 could be compared"
    search.candidate = 0
    search.trials[0] = replace(search.trials[0], outcome="stopped")
    assert concluded(search).headline == f"{found}1 trial was stopped"
    search.trials.append(replace(search.trials[0], number=2, outcome="not better"))
    assert concluded(search).headline == (f"{found}2 trials were tried, and none could be compared")
    search.trials = []
    assert concluded(search).headline == f"{found}nothing else was tried"


def test_of_a_live_server_only_what_differs_is_to_be_applied() -> None:
    search = a_search(measured(Verdict.BETTER, 1.08))
    search.load = replace(search.load, server="1@db:/data:5432")
    found = concluded(search)
    assert found.settings == {"max_wal_size": "4GB", "commit_delay": "150"}
    assert "against the settings in force" in found.headline
