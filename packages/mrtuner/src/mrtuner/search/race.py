"""The rules of a race: when a trial is stopped, and when it becomes the best so far.

The bounds are those of Student's t on the logarithms of the ratios, of one side: losing takes an
upper bound of 95 %, winning a lower one of 90 %. A trial that wins by chance costs nothing: the
winner is measured again, in pairs that no race has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, log
from statistics import fmean
from typing import TYPE_CHECKING, Final

from mrtuner.search.conclusion import percent
from mrtuner.stats.comparison import FEWEST_PAIRS, Pair, Verdict, compare

if TYPE_CHECKING:
    from mrtuner.search.model import BindingEvidence, Outcome

#: A trial that is surely slower than this share of the best so far is stopped.
_LOST: Final = 0.95
#: Below these shares of the throughput, one pair is enough, or two.
_COLLAPSED, _COLLAPSED_TWICE = 0.2, 0.5
#: p99 latency beyond this multiple, in so many pairs, stops a trial.
_SLOW, _SLOW_PAIRS = 1.5, 2
#: A trial that is slower in each of its first pairs is given up, though it does no harm.
_LOSING: Final = 2
#: Transactions that may fail where those of the best so far do not.
_ERRORS: Final = 0.001
#: Below this share of the advice in long runs, or if slower in each pair, a winner is none.
_PUT_OFF: Final = 0.97
_UPPER, _LOWER = 0.10, 0.20  # alpha of two-sided intervals: one-sided 95 % and 90 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """Pairs of runs: the best so far, or whatever is compared with, comes first in each."""

    pairs: Sequence[Pair]  # transactions per second, the checkpoint left behind included
    slowest: Sequence[Pair] = ()  # p99 latency [µs]; one pair of all runs, if each has too few
    throughputs: Sequence[Pair] = ()  # of a live server, where statement times are compared
    failed: Pair = (0.0, 0.0)  # shares of transactions that failed
    verdict: Verdict = Verdict.UNDECIDED
    refused: tuple[str, ...] = ()  # why there is no verdict
    disturbed: tuple[str, ...] = ()  # of these, what other programs took
    cautions: tuple[str, ...] = ()  # what weakens it
    evidence: tuple[BindingEvidence, ...] = field(default=())  # of the first side
    unknown: tuple[str, ...] = ()  # why pairs do not count, one for each
    tripped: str | None = None  # what the guard of a live server saw
    seconds: float = 0.0


def stop(raced: Raced) -> str | None:
    """Return why a trial is stopped after these pairs; None while it may go on."""
    if raced.tripped is not None or not raced.pairs:
        return raced.tripped
    fell = [b / a for a, b in raced.pairs if b < _COLLAPSED_TWICE * a]
    if len(fell) > 1 or any(one < _COLLAPSED for one in fell):
        return f"it fell to {min(fell):.0%} of what it raced"
    if (why := _failed(raced)) is not None:
        return why
    slow = sum(1 for a, b in raced.slowest if b > _SLOW * a)
    if slow >= _SLOW_PAIRS:
        return f"its p99 latency was over {_SLOW:g} times that of what it raced in {slow} pairs"
    if len(raced.pairs) >= FEWEST_PAIRS and _high(raced.pairs) < _LOST:
        return f"it is over {1 - _LOST:.0%} slower, by the upper 95 % bound"
    return None


def lost(raced: Raced) -> str | None:
    """Return why a trial that does no harm is given up; None while it may still win."""
    if len(raced.pairs) >= _LOSING and all(b < a for a, b in raced.pairs):
        return f"it was slower in each of {len(raced.pairs)} pairs"
    return None


def harm(raced: Raced) -> tuple[str, ...]:
    """Return why a race that was not stopped confirms nothing: none, or one reason."""
    if (why := _failed(raced)) is not None:
        return (why,)
    if raced.slowest and (slower := exp(gain(raced.slowest))) > _SLOW:
        return (f"its p99 latency was {slower:.2g} times that of what it raced",)
    return ()


def put_off(raced: Raced) -> tuple[str, ...]:
    """Return why a winner of short runs does not hold in long ones: none, or one reason."""
    if why := raced.disturbed[:1] or harm(raced):
        return why
    gained = compare(raced.pairs).ratio
    if all(b < a for a, b in raced.pairs) or gained < _PUT_OFF:
        return (f"it was {percent(gained)}: short runs do not show what is put off",)
    return ()


def _failed(raced: Raced) -> str | None:
    before, now = raced.failed
    return f"{now:.1%} of its transactions failed" if now > before + _ERRORS else None


def outcome(raced: Raced, wanted: int) -> tuple[Outcome, str]:
    """Return how a race ended, and why; a race cut short by its rules has under `wanted` pairs."""
    if (why := stop(raced)) is not None:
        return "stopped", why
    if (why := lost(raced)) is not None:
        return "not better", why
    if len(raced.pairs) < FEWEST_PAIRS:
        return "not better", f"{len(raced.pairs)} of {wanted} pairs could be compared"
    if (why := throttled(raced)) is not None:
        return "not better", why
    if compare(raced.pairs, alpha=_LOWER).low > 1:
        return "better", "its lower 90 % bound is above what it raced"
    return "not better", "it is not surely better than what it raced"


def throttled(raced: Raced) -> str | None:
    """Return why faster statements are no gain: fewer of them ran. None if that is not sure."""
    if len(raced.throughputs) < FEWEST_PAIRS or _high(raced.throughputs) >= 1:
        return None
    done = compare(raced.throughputs).ratio
    return f"its throughput was surely lower, at {done:.0%}"


def gain(pairs: Sequence[Pair]) -> float:
    """Return the mean logarithm of the ratios."""
    return fmean(log(b / a) for a, b in pairs)


def _high(pairs: Sequence[Pair]) -> float:
    return compare(pairs, alpha=_UPPER).high
