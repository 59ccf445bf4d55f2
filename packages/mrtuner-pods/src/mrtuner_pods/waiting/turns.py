"""The global lock of a worker, whose threads compute in turns.

A thread that computes keeps the lock until it ends or waits for something else. If another one
waits, it has to give the lock up after a turn: 5 ms in Python, 100 ms in Ruby. It then waits
behind all others. So a short stretch waits at most one turn for each thread before it, and a long
one also waits for every short one that arrives meanwhile.

Source: CPython 3.11, Python/ceval_gil.h: take_gil, drop_gil (each change of the holder begins a
new turn; sys.getswitchinterval returns its length); Ruby 3.1, thread_pthread.c: gvl_acquire,
do_gvl_timer (TIME_QUANTUM_MSEC, waiting threads in a queue).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

#: sys.getswitchinterval and TIME_QUANTUM_MSEC [s].
PYTHON_TURN: Final = 0.005
RUBY_TURN: Final = 0.1

_Who = TypeVar("_Who")
#: Schedules a call at a time; the second argument of the call is not used.
Later = Callable[[float, Callable[[float, object], None]], None]


@dataclass(slots=True, eq=False)
class _Stretch(Generic[_Who]):
    """What a thread has to compute. Times in seconds."""

    who: _Who
    left: float
    since: float  # when it got the lock, or began to wait for it
    waited: float = 0.0


class Turns(Generic[_Who]):
    """Runs one stretch at a time.

    Calls `used` with the begin and the end of each time in which a thread computed, and `done` when
    a stretch has ended, with how long it waited for the lock.
    """

    def __init__(
        self,
        turn: float,
        later: Later,
        used: Callable[[float, float], None],
        done: Callable[[float, _Who, float], None],
    ) -> None:
        self._turn, self._later, self._used, self._done = turn, later, used, done
        self._holder: _Stretch[_Who] | None = None
        self._waiting: deque[_Stretch[_Who]] = deque()
        self._changes = 0  # of the holder: calls scheduled before the last one are ignored

    def compute(self, now: float, demand: float, who: _Who) -> None:
        """Let a thread compute for `demand` [s] as soon as it is its turn."""
        stretch = _Stretch(who, demand, now)
        if self._holder is None:
            self._hold(now, stretch)
            return
        self._waiting.append(stretch)
        if len(self._waiting) == 1:
            self._bound(now)

    def _hold(self, now: float, stretch: _Stretch[_Who]) -> None:
        stretch.waited += now - stretch.since
        stretch.since = now
        self._holder = stretch
        self._changes += 1
        self._later(now + stretch.left, partial(self._end, self._changes))
        if self._waiting:
            self._bound(now)

    def _bound(self, now: float) -> None:
        """Limit the holder to one more turn, since another thread waits from now on."""
        holder = self._holder
        if holder is not None and holder.since + holder.left > now + self._turn:
            self._later(now + self._turn, partial(self._give_up, self._changes))

    def _end(self, change: int, now: float, _nothing: object) -> None:
        if (ended := self._leave(change, now)) is not None:
            self._done(now, ended.who, ended.waited)

    def _give_up(self, change: int, now: float, _nothing: object) -> None:
        if (stopped := self._leave(change, now, stays=True)) is not None:
            stopped.since = now

    def _leave(self, change: int, now: float, *, stays: bool = False) -> _Stretch[_Who] | None:
        """Take the lock from its holder, and give it to the one that has waited longest."""
        holder = self._holder
        if holder is None or change != self._changes:
            return None
        self._used(holder.since, now)
        holder.left -= now - holder.since
        holder.since = now
        if stays:
            self._waiting.append(holder)
        self._holder = None
        if self._waiting:
            self._hold(now, self._waiting.popleft())
        return holder
