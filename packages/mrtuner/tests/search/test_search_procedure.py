"""What a search tries and what it leaves alone, on the simulated server."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from search_surface import ADVICE, SERVER, Surface, new_search, procedure

from mrtuner.errors import ConnectError, MrTunerError, Refused
from mrtuner.search.model import Search, Settings
from mrtuner.search.race import Raced
from mrtuner.search.text import notes, verdict

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
    made.fits = lambda side: side.get("shared_buffers") not in {None, "2GB", "4GB"}
    made.run()
    assert {one.origin for one in search.trials} == {"proposed"}, "nor the default"
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


class Slow(Surface):
    """A server whose p99 triples without the advice's shared_buffers; its throughput rises."""

    def race(
        self, first: Settings, second: Settings, pairs: int, enough: Callable[[Raced], bool],
        title: str,
    ) -> Raced:  # fmt: skip
        slower = 3.0 if second.get("shared_buffers") != "1GB" else 1.0

        def noticed(seen: Raced) -> bool:
            return enough(replace(seen, slowest=[(1.0, slower)] * len(seen.pairs)))

        done = super().race(first, second, pairs, noticed, title)
        return replace(done, slowest=[(1.0, slower)] * len(done.pairs))


def test_what_a_guard_stopped_is_no_candidate_however_fast_it_was() -> None:
    """The default gains 0.3 in the logarithm, 35 %, and everything else nothing."""
    search = new_search(1, minutes=20)
    form = {True: 0.3, False: 0.0}
    surface = Slow(1, lambda side: form["shared_buffers" not in side], noise=0.01)
    procedure(search, surface).run()
    first = search.trials[0]
    assert (first.origin, first.outcome) == ("default", "stopped")
    assert search.candidate not in {None, 1}
    assert search.result is not None
    assert not search.result.found


class Postponing(Named):
    """A server whose default settings gain in short runs, and lose or gain by `later` in long."""

    postpones = True

    def __init__(self, later: float, **long: Any) -> None:
        super().__init__(1)
        self.noise, self.later, self.long = 0.01, later, long

    def race(
        self, first: Settings, second: Settings, pairs: int, enough: Callable[[Raced], bool],
        title: str,
    ) -> Raced:  # fmt: skip
        long = title == "long runs"
        gain = self.later if long else 0.3
        self.form = lambda side: 0.0 if "shared_buffers" in side else gain
        done = super().race(first, second, pairs, enough, title)
        return replace(done, **self.long) if long else done


def test_what_wins_in_short_runs_and_loses_in_long_ones_is_not_confirmed() -> None:
    """A logarithm of -0.25 is a loss of 22.1 %; the mean of two pairs varies by 1 %."""
    search = procedure(new_search(1, minutes=20), Postponing(-0.25)).run()
    found = search.result
    assert found is not None
    assert not found.found
    assert found.settings == {}
    assert verdict(search) == "Not confirmed"
    assert re.search(
        r"nothing better than the advice is confirmed: \+3\d\.\d % .* in fresh pairs, but in 2 "
        r"pairs of 45 s it was -2[0-4]\.\d %: short runs do not show what is put off",
        found.headline,
    )


def test_what_wins_in_long_runs_too_is_confirmed_and_says_so() -> None:
    """A logarithm of 0.2 is a gain of 22.1 %."""
    search = procedure(new_search(1, minutes=20), Postponing(0.2)).run()
    assert search.result is not None
    assert search.result.found
    assert any(
        re.fullmatch(r"in 2 pairs of 45 s it was \+2[0-5]\.\d % as well", one)
        for one in notes(search)
    )


@pytest.mark.parametrize(
    ("long", "why"),
    [
        ({"disturbed": ("others used 80 % of the CPU",)}, "others used 80 % of the CPU"),
        ({"failed": (0.0, 0.4)}, "40.0% of its transactions failed"),
        ({"slowest": [(1.0, 8.0), (1.0, 9.0)]}, "its p99 latency was 8.5 times that of what it r"),
        ({"pairs": [(1000.0, 1100.0)]}, "in long runs: 2 pairs of 45 s could not be compared"),
    ],
)
def test_long_runs_that_show_harm_or_nothing_confirm_nothing(
    long: dict[str, Any], why: str
) -> None:
    """The p99 of two pairs rises by sqrt(8 x 9) = 8.49 times."""
    found = procedure(new_search(1, minutes=20), Postponing(0.2, **long)).run().result
    assert found is not None
    assert not found.found
    assert why in found.headline


def test_a_search_killed_in_its_long_runs_keeps_the_confirmation() -> None:
    whole = Postponing(0.2)
    procedure(new_search(1, minutes=20), whole).run()
    search, killed = new_search(1, minutes=20), Postponing(0.2)
    killed.killed_at = 1 + whole.titles.index("long runs")
    with pytest.raises(KeyboardInterrupt):
        procedure(search, killed).run()
    confirmed, again = search.confirmation, Postponing(0.2)
    assert confirmed is not None
    procedure(search, again).run()
    assert again.titles == ["long runs"]
    assert search.confirmation == confirmed
    assert search.result is not None
    assert search.result.found


def test_proposals_keep_what_won_outside_of_what_is_searched() -> None:
    """PgTune's default_statistics_target, which no search has, is worth 0.2 on this surface."""
    search = new_search(1)
    search.baselines = {"pgtune": ADVICE | {"default_statistics_target": "500"}}
    form = {True: 0.2, False: 0.0}
    surface = Surface(1, lambda side: form["default_statistics_target" in side], noise=0.01)
    procedure(search, surface).run()
    assert search.trials[0].outcome == "better"
    assert {side.get("default_statistics_target") for side in proposed(search)} == {"500"}
    assert search.result is not None
    assert search.result.settings["default_statistics_target"] == "500"


def test_what_an_error_leaves_unmeasured_of_a_winner_is_named_and_the_winner_stays() -> None:
    class Broken(Named):
        def race(self, *given: Any) -> Raced:
            if given[-1].startswith("without"):
                raise ConnectError("the server does not start: too small")
            return super().race(*given)

    search = procedure(new_search(1, minutes=240), Broken(1)).run()
    assert search.result is not None
    assert search.result.found
    assert search.unknown == [
        "what the settings are worth one by one: the server does not start: too small"
    ]


def test_an_interrupted_confirmation_is_named() -> None:
    """Nobody can tell whether it was interrupted because of what it showed."""
    search = new_search(1, minutes=20)

    class Interrupted(Named):
        def race(self, *given: Any) -> Raced:
            if given[-1] == "confirmation":
                raise KeyboardInterrupt
            return super().race(*given)

    with pytest.raises(KeyboardInterrupt):
        procedure(search, Interrupted(1)).run()
    assert search.unknown == []
    procedure(search, Surface(1)).run()
    assert search.unknown == [
        "the confirmation was interrupted: its pairs are not counted, and it began again"
    ]


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
    assert search.side(search.candidate or 0)["shared_buffers"] != ADVICE["shared_buffers"]
    # Of 900 s: a pair has at least its windows, 28 s, and 30 pairs are the most.
    assert search.confirmation.pairs == 30


def test_where_time_is_short_only_some_settings_are_taken_back_the_searched_first() -> None:
    """20 min: 600 s for trials, 180 s for the parts of the winner less what the last trial overran.

    A pair takes 20 s, and a setting needs three.
    """
    search = new_search(1, minutes=20)
    others = {
        "default_statistics_target": "500", "random_page_cost": "1.1", "cpu_tuple_cost": "0.02",
        "commit_siblings": "9", "max_wal_size": "4GB",
    }  # fmt: skip
    search.baselines = {"pgtune": ADVICE | others}
    procedure(search, Surface(1, lambda side: 0.2 * ("random_page_cost" in side))).run()
    searched = {one.name for one in search.searched}
    order = [one.name in searched for one in search.ablation]
    assert order == sorted(order, reverse=True)
    measured = [one.measured.pairs if one.measured else 0 for one in search.ablation]
    assert search.calibration is not None
    spent = search.calibration.seconds + sum(one.seconds for one in search.trials)
    assert 600 <= spent < 680
    room = 3 if spent == 600 else 2
    assert measured[:room] == [3] * room
    assert measured[room:] == [0] * (len(order) - room)
    assert len(order) >= 5
