"""What a search tries and what it leaves alone, on the simulated server."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from search_surface import ADVICE, SERVER, Surface, new_search, procedure

from mrtuner.errors import ConnectError, MrTunerError, Refused
from mrtuner.search.model import Search, Settings
from mrtuner.search.race import Raced

NEVER = {"fsync", "full_page_writes", "synchronous_commit", "wal_level", "autovacuum"}


class Failing(Surface):
    """A server that does not start with some settings."""

    def __init__(self, fails: Callable[[Settings], bool], error: MrTunerError) -> None:
        super().__init__(1)
        self.fails, self.error = fails, error

    def race(
        self, first: Settings, second: Settings, pairs: int, enough: Callable[[Raced], bool],
        title: str,
    ) -> Raced:  # fmt: skip
        if self.fails(second):
            raise self.error
        return super().race(first, second, pairs, enough, title)


def proposed(search: Search) -> list[Settings]:
    return [one.settings for one in search.trials if one.origin == "proposed"]


def test_what_exceeds_the_memory_budget_is_never_tried() -> None:
    search = new_search(1)
    made = procedure(search, Surface(1))
    made.fits = lambda side: side["shared_buffers"] not in {"2GB", "4GB"}
    made.run()
    tried = {side["shared_buffers"] for side in proposed(search)}
    assert tried
    assert tried <= {"256MB", "512MB", "1GB"}


class Named(Surface):
    """Remembers what was raced."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.titles = list[str]()

    def race(
        self, first: Settings, second: Settings, pairs: int, enough: Callable[[Raced], bool],
        title: str,
    ) -> Raced:  # fmt: skip
        self.titles.append(title)
        return super().race(first, second, pairs, enough, title)


def test_what_is_left_of_the_winner_is_not_tried_beyond_the_memory_budget_either() -> None:
    search, surface = new_search(1, minutes=240), Named(1)
    made = procedure(search, surface)
    made.fits = lambda _side: search.confirmation is None
    made.run()
    assert "confirmation" in surface.titles
    assert surface.titles[-1] == "confirmation", "neither without one setting nor reduced"
    changed = len(search.ablation)
    assert changed > 1
    assert [one.measured for one in search.ablation] == [None] * changed
    assert len([one for one in search.unknown if "memory budget" in one]) == changed


def test_nothing_that_risks_data_is_touched_and_nothing_is_tried_twice() -> None:
    search = procedure(new_search(2), Surface(2)).run()
    for side in proposed(search):
        assert not NEVER & side.keys()
        assert side != ADVICE
    sides = [sorted(side.items()) for side in proposed(search)]
    assert all(sides.count(side) == 1 for side in sides)


def test_most_trials_keep_the_settings_that_need_a_restart() -> None:
    search = procedure(new_search(3, minutes=180), Surface(3)).run()
    restarts = [
        SERVER.restarts(search.side(one.against), one.settings)
        for one in search.trials
        if one.origin == "proposed"
    ]
    assert len(restarts) > 30
    assert 0 < sum(restarts) <= len(restarts) / 3 + 1


def test_a_trial_that_does_not_run_is_recorded_and_the_search_goes_on() -> None:
    broken = Failing(lambda side: side == {}, ConnectError("the server does not start: too small"))
    search = procedure(new_search(1, minutes=20), broken).run()
    first = search.trials[0]
    assert (first.origin, first.outcome, first.score, first.pairs) == (
        "default",
        "failed",
        None,
        (),
    )
    assert first.because == "the server does not start: too small"
    assert len(search.trials) > 1
    assert search.result is not None


def test_three_trials_in_a_row_that_do_not_run_end_the_search() -> None:
    broken = Failing(lambda side: side != ADVICE, ConnectError("the server does not start: gone"))
    search = new_search(1)
    with pytest.raises(ConnectError, match="gone"):
        procedure(search, broken).run()
    assert [one.outcome for one in search.trials] == ["failed"] * 3


def test_a_refusal_ends_the_search_at_once() -> None:
    broken = Failing(lambda side: side != ADVICE, Refused("the sides are not equally durable"))
    search = new_search(1)
    with pytest.raises(Refused):
        procedure(search, broken).run()
    assert search.trials == []


def test_the_budget_is_kept_to_a_trial() -> None:
    """Half of an hour: the trial that reaches it is the last, and takes 80 s at most."""
    search = procedure(new_search(4), Surface(4)).run()
    spent = sum(one.seconds for one in search.trials)
    assert search.calibration is not None
    assert 1800 <= spent + search.calibration.seconds < 1880
    assert search.confirmation is not None
    assert search.confirmation.pairs == 22  # of 900 s; a pair has at least its windows, 40 s
