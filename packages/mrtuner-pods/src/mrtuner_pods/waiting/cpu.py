"""The CPU of a pod under its limit, allotted as by the kernel (CFS bandwidth control).

A limit of q CPUs is a pool of q x 100 ms of CPU time, renewed every 100 ms. A CPU on which the pod
runs takes 5 ms of it at a time, and checks at its timer ticks whether they are used up. So an
empty pool does not stop all processes at once: each runs on until the first tick after its slice
has ended, and the excess is taken from its next slice. A CPU that becomes idle gives its slice
back except for 1 ms, which it keeps beyond the period.

Source: Linux 5.4 and later, Documentation/scheduler/sched-bwc.rst; kernel/sched/fair.c:
assign_cfs_rq_runtime, __return_cfs_rq_runtime, distribute_cfs_runtime, do_sched_cfs_slack_timer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil, floor
from typing import Final, Generic, TypeVar

from mrtuner_pods.waiting.turns import Later

#: cpu.cfs_period_us as kubelets leave it [s].
PERIOD: Final = 0.1
#: sched_cfs_bandwidth_slice_us; what an idle CPU keeps of it, min_cfs_rq_runtime [s].
_SLICE: Final = 0.005
_KEPT: Final = 0.001
#: Time between two ticks [s]: CONFIG_HZ=250, as Debian has it. With 1000 a process stops sooner.
_TICK: Final = 0.004
#: Slack that was given back goes to stopped processes after this delay [s]
#: (cfs_bandwidth_slack_period), but not this close to the period's end (min_bandwidth_expiration).
_SLACK: Final = 0.005
_TOO_LATE: Final = 0.002
#: What a stopped CPU gets beyond its debt, and the largest rounding error of sums of times [s].
_A_NANOSECOND: Final = 1e-9
_INSTANT: Final = 1e-10

_Who = TypeVar("_Who")


@dataclass(slots=True, eq=False)
class _Running(Generic[_Who]):
    """A piece of work on a CPU of its own. Times in seconds."""

    who: _Who
    left: float  # of the work
    slice: float  # that its CPU has left; below zero, it ran for longer
    since: float  # when both were true


class PodCpu(Generic[_Who]):
    """Runs pieces of work of `_Who`, and calls `done` when each has ended.

    `renewal` is when the pool is first renewed [s]. Ticks are those of one clock, from 0 on.
    """

    def __init__(
        self, quota: float, renewal: float, later: Later, done: Callable[[float, _Who], None]
    ) -> None:
        self._quota = self._pool = quota * PERIOD
        self._renewal = renewal
        self._later, self._done = later, done
        self._idle: list[float] = []  # slices of CPUs on which nothing runs, the most recent last
        self._stopped: deque[_Running[_Who]] = deque()
        self._renewal_awaited = self._slack_awaited = False
        self._now = 0.0
        self.throttled_periods = 0

    @property
    def periods(self) -> int:
        return max(1, round(self._now / PERIOD))

    def add(self, now: float, demand: float, who: _Who) -> None:
        """Start work that takes `demand` of CPU time [s]."""
        self._renew(now)
        has = self._idle.pop() if self._idle else 0.0
        self._run(now, _Running(who=who, left=demand, slice=has, since=now))

    def _run(self, now: float, one: _Running[_Who]) -> None:
        """Let it run until its work ends, or the first tick at which its slice is used up."""
        if one.slice <= _INSTANT:
            taken = min(_SLICE - one.slice, self._pool)
            self._pool -= taken
            one.slice += taken
        if one.slice <= _INSTANT:
            self._stopped.append(one)
            self._await_renewal()
            return
        one.since = now
        tick = _next_tick(now, now + one.slice)
        if now + one.left <= tick + _INSTANT:
            self._later(now + one.left, partial(self._end, one))
        else:
            self._later(tick, partial(self._tick, one))

    def _tick(self, one: _Running[_Who], now: float, _nothing: object) -> None:
        self._account(one, now)
        self._run(now, one)

    def _end(self, one: _Running[_Who], now: float, _nothing: object) -> None:
        self._account(one, now)
        self._give_back(now, one.slice)
        self._done(now, one.who)

    def _account(self, one: _Running[_Who], now: float) -> None:
        self._renew(now)
        one.left -= now - one.since
        one.slice -= now - one.since

    def _give_back(self, now: float, left: float) -> None:
        self._idle.append(min(left, _KEPT))
        self._pool += max(0.0, left - _KEPT)
        if self._slack_awaited or not self._stopped or self._pool <= _SLICE:
            return
        if self._renewal - now > _SLACK + _TOO_LATE:
            self._slack_awaited = True
            self._later(now + _SLACK, self._give_slack)

    def _give_slack(self, now: float, _nothing: object) -> None:
        self._slack_awaited = False
        self._renew(now)
        if self._pool > _SLICE and self._renewal - now > _TOO_LATE:
            self._distribute(now)

    # Periods.

    def _renew(self, now: float) -> None:
        self._now = now
        if now >= self._renewal:
            self._renewal += PERIOD * (1 + floor((now - self._renewal) / PERIOD))
            self._pool = self._quota

    def _await_renewal(self) -> None:
        if not self._renewal_awaited:
            self._renewal_awaited = True
            self._later(self._renewal, self._begin_period)

    def _begin_period(self, now: float, _nothing: object) -> None:
        self._renewal_awaited = False
        self._renew(now)
        self.throttled_periods += bool(self._stopped)
        self._distribute(now)
        if self._stopped:
            self._await_renewal()

    def _distribute(self, now: float) -> None:
        """Pay the debts of stopped CPUs, the longest stopped first; each asks for more itself."""
        while self._stopped and self._pool > 0:
            one = self._stopped[0]
            paid = min(_A_NANOSECOND - one.slice, self._pool)
            self._pool -= paid
            one.slice += paid
            if one.slice > _INSTANT:
                self._run(now, self._stopped.popleft())


def _next_tick(now: float, when: float) -> float:
    """Return the first tick from `when` on that is not now."""
    tick = ceil((when - _INSTANT) / _TICK) * _TICK
    return tick if tick > now + _INSTANT else tick + _TICK
