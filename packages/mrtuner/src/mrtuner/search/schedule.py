"""How a budget of time is spent: lengths of runs, numbers of pairs, and a forecast of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, sqrt
from typing import Final, NamedTuple

from mrtuner.errors import UsageError
from mrtuner.search.model import Schedule
from mrtuner.stats.comparison import FEWEST_BLOCKS, FEWEST_PAIRS
from mrtuner.stats.histogram import needed
from mrtuner.units import pretty_duration
from mrtuner.wording import plural

#: A search with less would be a confirmation alone.
_LEAST: Final = 20.0
_MOST: Final = 24 * 3600.0
_SHARES: Final = {"search": 0.5, "confirmation": 0.25, "ablation": 0.15, "reduced": 0.1}
_PAIRS: Final = 4
#: Pairs of the advice with itself; what is seen in the first, after the start, does not count.
PROFILE_PAIRS: Final = 3
#: Baselines are there to be compared with.
BASELINE_PAIRS: Final = FEWEST_PAIRS
#: How much longer a pair takes, at most, whose runs begin with a restart and a full warm-up.
RESTARTED: Final = 2.0
#: The length of a window follows from this many trials; those that lose early make room for more.
_TRIALS: Final = 12
_SHORTEST, _LONGEST = 2, 20  # seconds of a window; what waits is seen once a second
_WARMUP: Final = 3
#: Untouched, tried, untouched; a load that comes and goes needs longer windows, and what sessions
#: did before a window is reported up to a second later.
_LIVE_RUNS, _SETTLING, _TRIALS_LIVE, _LEAST_LIVE = 3, 2, 4, 300.0
_SHORTEST_LIVE, _LONGEST_LIVE = 5, 60
#: What wins in short runs is measured in some of this length [s] as well, if the load may write:
#: the kernel holds writes back for some 20 s (docs, measured results: flushes and buffers).
LONG_RUN, LONG_PAIRS = 45, 2
#: Seconds that a run takes besides: two checkpoints, connections, switching settings.
_BESIDE: Final = 1.0
#: After filling, the load runs for this share of the budget first, up to two minutes; a server that
#: still gains more than this from one half to the next goes on, up to twice as long or two minutes.
_WARMING, _LONGEST_WARMING = 0.03, 120
_STILL_GAINS: Final = 0.05
#: Transactions arrive at random: so many standard deviations more than needed are expected, since
#: a run with too few has no p99.
_SPREAD: Final = 4
#: More pairs cost time that longer windows use better.
_MOST_PAIRS: Final = 30


def schedule(
    budget: float, *, live: bool = False, rate: float | None = None, least: int = 0
) -> Schedule:
    """Return how a budget [s] is spent.

    With a `rate` of transactions a second, runs are long enough for a p99. No run is shorter than
    `least` [s], which a live server needs where it does not time its statements.

    Raises:
        UsageError: the budget is too short or too long, or the rate too low for a p99.
    """
    fewest = _LEAST_LIVE if live else _LEAST
    if not fewest <= budget <= _MOST:
        raise UsageError(
            f"a budget of {pretty_duration(budget)} is not between {pretty_duration(fewest)} "
            f"and {pretty_duration(_MOST)}",
            "Give --budget 20min, for example.",
        )
    runs, trials = (_LIVE_RUNS, _TRIALS_LIVE) if live else (2, _TRIALS)
    shortest, longest = (_SHORTEST_LIVE, _LONGEST_LIVE) if live else (_SHORTEST, _LONGEST)
    run = budget * _SHARES["search"] / (trials * _PAIRS * runs) - _BESIDE
    warmup = _SETTLING if live else min(_WARMUP, int(run / 3))
    enough = ceil((needed(0.99) + _SPREAD * sqrt(needed(0.99))) / rate) if rate else 0
    if enough > longest:
        raise UsageError(
            f"a run of {longest} s at {rate:g} transactions a second is too short for a p99",
            f"It needs {needed(0.99):,} transactions: raise the rate.",
        )
    window = max(shortest, enough, least, min(longest, int(run - warmup)))
    planned = Schedule(
        budget=budget, window=window, warmup=warmup, pairs=_PAIRS, runs=runs, **_SHARES
    )
    takes = (PROFILE_PAIRS + FEWEST_BLOCKS) * _expected(planned)
    if (rate or least) and takes > budget:
        needs, other = (
            (f"a p99 at {rate:g} transactions a second needs", "Raise the rate")
            if rate
            else (
                "a server that does not time its statements needs",
                "Make pg_stat_statements readable",
            )
        )
        raise UsageError(
            f"{pretty_duration(budget)} has no room for runs of {window} s, as {needs}",
            f"{other}, or give at least --budget {ceil(takes / 60)}min.",
        )
    return planned


def warming(planned: Schedule) -> int:
    """Return how long the load runs before the first pair [s], at least, besides the budget."""
    return min(_LONGEST_WARMING, max(planned.window, round(planned.budget * _WARMING)))


def warm(throughputs: Sequence[float], took: float, seconds: int) -> bool:
    """Whether a warm-up of equal stretches, planned for some `seconds`, has lasted long enough.

    It has two at least, and more while the last gained much on the one before. `took` [s] is what
    they took in all.

    >>> warm([900.0], 30, 60), warm([900.0, 1100.0], 60, 60), warm([900.0, 1100.0, 1120.0], 90, 60)
    (False, False, True)
    >>> warm([900.0, 1100.0], 120, 60)
    True
    """
    if len(throughputs) < 2:
        return False
    longest = max(2 * seconds, _LONGEST_WARMING)
    gains = throughputs[-1] > (1 + _STILL_GAINS) * throughputs[-2]
    return not gains or took + seconds / 2 > longest


class TimedRace(NamedTuple):
    """What a race took."""

    pairs: int
    seconds: float
    restarts: bool  # before each run


def pair_seconds(planned: Schedule, done: Iterable[TimedRace], *, restarts: bool) -> float:
    """Return what a pair takes [s]: as measured in such races so far, else as expected."""
    races = list(done)
    alike = [one for one in races if one.restarts is restarts]
    if alike:
        took = sum(one.seconds for one in alike) / sum(one.pairs for one in alike)
    elif restarts:
        took = RESTARTED * pair_seconds(planned, races, restarts=False)
    else:
        took = _expected(planned)
    return max(took, float(planned.runs * planned.window))


def _long_runs(planned: Schedule) -> str:
    more = LONG_PAIRS * (_expected(planned) + planned.runs * (LONG_RUN - planned.window))
    return (
        f"; if it wins and the load may write, {LONG_PAIRS} of {LONG_RUN} s, {ceil(more / 60)} min "
        "beyond the budget"
    )


def _expected(planned: Schedule) -> float:
    """Return what a pair takes [s] before any was measured."""
    return planned.runs * (planned.window + planned.warmup + _BESIDE)


def fresh_pairs(seconds: float, pair: float) -> int:
    """Return how many pairs of `pair` seconds are measured in this time [s]: at least six."""
    return max(FEWEST_BLOCKS, min(_MOST_PAIRS, int(seconds / pair)))


def room(planned: Schedule, pair: float) -> tuple[int, int]:
    """Return for how many full trials and fresh pairs of `pair` seconds there is time."""
    left = planned.budget * planned.search - PROFILE_PAIRS * pair
    baselines = 2 * BASELINE_PAIRS * pair * (1 if planned.runs > 2 else RESTARTED)
    trials = int((left - min(baselines, left / 2)) / (pair * planned.pairs))
    return max(0, trials), fresh_pairs(planned.confirmation * planned.budget, pair)


def forecast(planned: Schedule) -> list[str]:
    """Return the plan in sentences, before anything runs."""
    pair = _expected(planned)
    trials, fresh = room(planned, pair)
    live = planned.runs > 2
    before = "" if live else f", after filling and {warming(planned)} s of load or more"
    what = "settings in force" if live else "advice"
    against = f"the {what}" if live else "the best so far"
    return [
        f"{pretty_duration(planned.budget)} in all{before}; a run measures "
        f"{planned.window} s, after {planned.warmup} s of warm-up",
        f"{planned.search:.0%} for the noise, the baselines and about {plural(trials, 'trial')}, "
        f"each of {planned.pairs} pairs with {against}; those that lose end early",
        f"{planned.confirmation:.0%} for the winner against the {what}: about {fresh} fresh pairs"
        + ("" if live else _long_runs(planned)),
        f"{planned.ablation:.0%} for what each of its settings is worth",
        f"{planned.reduced:.0%} for what is left without those worth under 1 %: about "
        f"{fresh_pairs(planned.reduced * planned.budget, pair)} fresh pairs",
    ]
