"""The share of one session's time that recording may take, and which source to slow down."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

#: Share of one session's time; of a server with several CPUs it is a smaller share.
BUDGET: Final = 0.01
#: An interval grows to at most this multiple of what the source asks for.
MOST: Final = 64
#: Of so many samples the shortest tells what a source costs: the others waited for a CPU as well,
#: most of all on a busy server, where samples are needed.
_RECENT: Final = 5
#: Below this part of the budget, an interval is shortened again.
_CALM: Final = 0.25


@dataclass(slots=True)
class Pace:
    """The interval of one source, and how long its last samples took."""

    interval: float  # seconds, as the source asks for
    factor: int = 1
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))  # seconds

    @property
    def actual(self) -> float:
        return self.interval * self.factor

    @property
    def share(self) -> float:
        """The share of a session's time that its samples take."""
        return min(self.recent, default=0.0) / self.actual


@dataclass(slots=True)
class Budget:
    """The paces of all sources of an instance, kept within a share of one session's time."""

    paces: dict[str, Pace]
    share: float = BUDGET

    @classmethod
    def of(cls, intervals: Iterable[tuple[str, float]], share: float = BUDGET) -> Budget:
        return cls({name: Pace(interval) for name, interval in intervals}, share)

    def took(self, name: str, seconds: float) -> None:
        """Note how long a sample took [s]."""
        self.paces[name].recent.append(seconds)

    def adjust(self) -> str | None:
        """Slow down the costliest source, or speed up the cheapest slowed one; return its name."""
        total = sum(pace.share for pace in self.paces.values())
        if total > self.share:
            slow = [name for name, pace in self.paces.items() if pace.factor < MOST]
            if slow:
                name = max(slow, key=lambda one: self.paces[one].share)
                self.paces[name].factor *= 2
                return name
        elif total < self.share * _CALM:
            rare = [name for name, pace in self.paces.items() if pace.factor > 1]
            if rare:
                name = min(rare, key=lambda one: self.paces[one].share)
                self.paces[name].factor //= 2
                return name
        return None
