"""The CPU of a pod: processes that run at the same time, and a quota that stops them all.

A CPU limit of q CPUs is a quota of q x 100 ms in every period of 100 ms (CFS bandwidth control,
Documentation/scheduler/sched-bwc.rst). With n processes running it is used up after q / n of the
period; then none runs until the next one begins. What is left is not kept (no burst).

The time for which the processes have run is a clock of its own, which stops while they are stopped:
a piece of work that begins at clock c and takes d ends at c + d, whatever happens meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import floor, inf
from typing import Final, Generic, TypeVar

#: cpu.cfs_period_us as kubelets leave it [s].
PERIOD: Final = 0.1
#: A quota that ends with its period has not run out; sums of times are off by less [s].
_INSTANT: Final = 1e-9

_Who = TypeVar("_Who")
#: Asks for a call at a time; the second argument of the call means nothing.
_Later = Callable[[float, Callable[[float, object], None]], None]


class PodCpu(Generic[_Who]):
    """Runs pieces of work of `_Who`, and tells `done` when each has ended."""

    def __init__(
        self,
        cores: float | None,
        quota: float | None,
        phase: float,
        later: _Later,
        done: Callable[[float, _Who], None],
    ) -> None:
        self._cores = inf if cores is None else cores
        self._quota = inf if quota is None else quota
        self._later, self._done = later, done
        self._running: list[tuple[float, int, _Who]] = []  # by the clock at which it ends
        self._numbers = count()
        self._clock = self._now = 0.0
        self._left = self._quota * PERIOD
        self._period_end = phase * PERIOD
        self._stopped = False
        self._version = 0  # a call asked for by an earlier one is void
        self.throttled_periods = 0

    @property
    def periods(self) -> int:
        """Periods until now."""
        return max(1, round(self._now / PERIOD))

    def add(self, now: float, demand: float, who: _Who) -> None:
        """Let somebody's work begin that takes `demand` of CPU time [s]."""
        self._advance(now)
        heappush(self._running, (self._clock + demand, next(self._numbers), who))
        self._plan()

    @property
    def _pace(self) -> float:
        """How fast each of them runs: more than there are cores share them."""
        return min(1.0, self._cores / len(self._running))

    def _advance(self, now: float) -> None:
        """Bring the clock and the quota up to date. None ran out meanwhile: that is an event."""
        if self._stopped:
            self._now = now
            return
        passed = now - self._now
        burn = len(self._running) * self._pace if self._running else 0.0
        self._clock += passed * self._pace if self._running else 0.0
        if now >= self._period_end:
            self._period_end += PERIOD * (1 + floor((now - self._period_end) / PERIOD))
            passed = now - (self._period_end - PERIOD)
            self._left = self._quota * PERIOD
        self._left -= burn * passed
        self._now = now

    def _plan(self) -> None:
        """Ask to be called when the next piece ends or the quota does, whichever is first."""
        self._version += 1
        if self._stopped or not self._running:
            return
        version, ends, stops = self._version, self._next_end(), self._next_stop()
        happen = self._end if ends <= stops else self._stop

        def call(now: float, _nothing: object) -> None:
            if version == self._version:
                self._advance(now)
                happen(now)

        self._later(min(ends, stops), call)

    def _next_end(self) -> float:
        return self._now + max(0.0, self._running[0][0] - self._clock) / self._pace

    def _next_stop(self) -> float:
        burn = len(self._running) * self._pace
        runs_out = self._now + max(0.0, self._left) / burn
        if runs_out < self._period_end - _INSTANT:
            return runs_out
        if burn <= self._quota:
            return inf
        return self._period_end + self._quota * PERIOD / burn

    def _end(self, now: float) -> None:
        self._clock, _, who = heappop(self._running)
        version = self._version
        self._done(now, who)
        if version == self._version:  # nobody began meanwhile
            self._plan()

    def _stop(self, now: float) -> None:
        self._stopped = True
        self._version += 1
        self.throttled_periods += 1
        self._later(self._period_end, self._go_on)
        self._now = now

    def _go_on(self, now: float, _nothing: object) -> None:
        self._stopped = False
        self._now = now
        self._period_end += PERIOD
        self._left = self._quota * PERIOD
        self._plan()
