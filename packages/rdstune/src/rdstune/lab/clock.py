"""The lab's clock: it runs `speed` times faster than real time, and can be moved ahead.

Future events are scheduled here and happen in order, each at its own time: an event in a
skipped week carries the time at which it would have happened.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Action = Callable[[], None]


class Clock:
    """UTC time in the lab, and its scheduled tasks. Not thread-safe: the lab's lock guards it.

    `wall` returns seconds that never decrease; tests may pass their own.
    """

    def __init__(
        self,
        speed: float = 60,
        start: datetime | None = None,
        wall: Callable[[], float] = time.monotonic,
    ) -> None:
        self._usual = speed
        self._wall = wall
        self._given = start
        self._present: datetime | None = None
        self._order = itertools.count()
        self.restart()

    def restart(self) -> None:
        """Start again at the initial time and usual speed, with nothing scheduled."""
        self.speed = self._usual
        self._start = self._given or datetime.now(UTC)
        self._origin = self._wall()
        self._skipped = timedelta()
        #: By time; the number keeps those of the same time in the order of scheduling.
        self._tasks: list[tuple[datetime, int, Action]] = []

    def now(self) -> datetime:
        """Return the lab's time; inside an action, the time for which it was scheduled."""
        return self._present or self._running()

    def advance(self, delta: timedelta) -> None:
        """Jump ahead; tasks that become due are run by the next `run_due`."""
        self._skipped += delta

    def go_on_at(self, speed: float) -> None:
        """From now on, run `speed` times as fast as real time."""
        self._start, self._skipped = self._running(), timedelta()
        self._origin, self.speed = self._wall(), speed

    def after(self, seconds: float, action: Action) -> None:
        """Run `action` after this many seconds of lab time."""
        self.at(self.now() + timedelta(seconds=seconds), action)

    def at(self, moment: datetime, action: Action) -> None:
        heapq.heappush(self._tasks, (moment, next(self._order), action))

    def run_due(self) -> None:
        """Run every task that is due, earliest first."""
        while self._tasks and self._tasks[0][0] <= self._running():
            self._present, _, action = heapq.heappop(self._tasks)
            try:
                action()
            finally:
                self._present = None

    def wait(self) -> float | None:
        """Return the real seconds until the next task; None when there is none."""
        if not self._tasks:
            return None
        left = (self._tasks[0][0] - self._running()).total_seconds()
        return max(0.0, left / self.speed)

    def _running(self) -> datetime:
        elapsed = (self._wall() - self._origin) * self.speed
        return self._start + timedelta(seconds=elapsed) + self._skipped
