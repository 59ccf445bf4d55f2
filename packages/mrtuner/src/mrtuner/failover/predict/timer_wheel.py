"""The kernel's timer wheel: when a timer really fires.

Since 4.8 a timer waits in one of nine levels of 64 buckets, each level eight times coarser than
the one below, and fires at the end of its bucket: never early, late by up to one granule. A timer
of 16 s is up to 0.26 s late at HZ 250, one of two hours up to 131 s. It is never moved to a finer
level later. Source: kernel/time/timer.c, calc_index() and calc_wheel_index() (6.12).

Times are integers of jiffies, 1/HZ s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median, median_high
from typing import Annotated, Final

from mrtuner.described import Doc

#: Timers of fewer jiffies than this wait in the finest level.
_FINEST: Final = 63
_DEEPEST: Final = 8
#: With more phases than this the band stays the same, and only the computation takes longer.
PHASES: Final = 1024


@dataclass(frozen=True, slots=True)
class Band:
    """A duration that depends on chance, in seconds."""

    low: Annotated[float, Doc("the shortest")]
    mid: Annotated[float, Doc("the usual")]
    high: Annotated[float, Doc("the longest")]

    @classmethod
    def exactly(cls, seconds: float) -> Band:
        return cls(seconds, seconds, seconds)

    @classmethod
    def over(cls, spans: Iterable[Band]) -> Band:
        """Return the span that contains them all; typical is the middle one of them."""
        every = list(spans)
        return cls(
            min(one.low for one in every),
            median_high(one.mid for one in every),
            max(one.high for one in every),
        )

    def plus(self, other: Band) -> Band:
        return Band(self.low + other.low, self.mid + other.mid, self.high + other.high)

    def times(self, count: int) -> Band:
        return Band(self.low * count, self.mid * count, self.high * count)

    def at_most(self, other: Band) -> Band:
        return Band(min(self.low, other.low), min(self.mid, other.mid), min(self.high, other.high))

    def covers(self, seconds: float, *, slack: float = 0.0) -> bool:
        """Whether a measured duration is inside, or outside by at most `slack`."""
        return self.low - slack <= seconds <= self.high + slack


def granule(delay: int) -> int:
    """Jiffies between two moments at which a timer of this length can fire."""
    level, limit = 0, _FINEST
    while delay >= limit and level < _DEEPEST:
        level, limit = level + 1, limit * 8
    return int(8**level)


def fires(now: int, delay: int, *, wheel: bool = True) -> int:
    """Return the jiffy at which a timer armed at `now` fires; on time if no wheel (before 4.8).

    >>> fires(1000, 51), fires(1000, 102)
    (1052, 1104)
    """
    if not wheel:
        return now + delay
    step = granule(delay)
    return ((now + delay) // step + 1) * step


def over_phases(end: Callable[[int], int], *, longest: int, hz: int, phases: int = PHASES) -> Band:
    """Return the span of ``end(start) - start`` over every start that the wheel distinguishes.

    `longest` is the longest timer in it. A timer is started between two ticks, so the lower end is
    one jiffy less than the shortest run counted from the tick before. Starts that are skipped, to
    save time, widen the span by the distance between two that are not.
    """
    period = granule(longest)
    stride = max(1, period // phases) | 1  # odd, so that the fine levels see every phase too
    starts = range(0, max(period, 64) * (2 if stride > 1 else 1), stride)
    runs = sorted(end(start) - start for start in starts)
    left_out = stride - 1
    low, high = runs[0] - 1 - left_out, runs[-1] + left_out
    return Band(low / hz, (median(runs) - 0.5) / hz, high / hz)
