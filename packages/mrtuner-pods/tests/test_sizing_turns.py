"""Threads that compute in turns, by hand: what each waits for the lock, and who computes when."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random

import pytest

from mrtuner_pods.waiting.queues import Layout
from mrtuner_pods.waiting.stages import RequestStage, Site, Work, simulate
from mrtuner_pods.waiting.turns import Turns

Call = Callable[[float, object], None]


def run(
    stretches: list[tuple[float, float]], turn: float = 5
) -> tuple[dict[int, tuple[float, float]], list[tuple[float, float]]]:
    """When each stretch (begin, length) ended and how long it waited; when any of them computed."""
    events: list[tuple[float, int, Call]] = []
    numbers = count()
    ended: dict[int, tuple[float, float]] = {}
    used: list[tuple[float, float]] = []

    def later(when: float, call: Call) -> None:
        heappush(events, (when, next(numbers), call))

    def asks(number: int, length: float) -> Call:
        return lambda now, _: turns.compute(now, length, number)

    turns: Turns[int] = Turns(
        turn, later, lambda begin, end: used.append((begin, end)),
        lambda now, number, waited: ended.update({number: (now, waited)}),
    )  # fmt: skip
    for number, (begin, length) in enumerate(stretches):
        later(begin, asks(number, length))
    while events:
        now, _, call = heappop(events)
        call(now, None)
    return ended, used


@pytest.mark.parametrize(
    ("stretches", "ended"),
    [
        ([(0, 12)], [(12, 0)]),
        # The second asks at 2, gets it at 7 and has it for 1; the first goes on with its last 5.
        ([(0, 12), (2, 1)], [(13, 1), (8, 5)]),
        # Less than a turn is left: nobody is interrupted.
        ([(0, 6), (2, 1)], [(6, 0), (7, 4)]),
        # Two long ones change every 5: 0-5, 5-10, 10-15, 15-20, 20-22, 22-24.
        ([(0, 12), (0, 12)], [(22, 10), (24, 12)]),
        # The turn begins with the first who waits: 7, not 8; then the third's comes first.
        ([(0, 12), (2, 8), (3, 1)], [(18, 6), (21, 11), (13, 9)]),
        # It begins again with each holder: the third has waited since 1, and the second has 4 - 9.
        ([(0, 4), (0, 9), (1, 1)], [(4, 0), (14, 5), (10, 8)]),
        # No time at all needs the lock, too.
        ([(0, 12), (2, 0)], [(12, 0), (7, 5)]),
    ],
    ids=["alone", "short", "nearly done", "both long", "three", "anew", "nothing"],
)
def test_what_each_waits(
    stretches: list[tuple[float, float]], ended: list[tuple[float, float]]
) -> None:
    found, used = run(stretches)
    assert [found[number] for number in range(len(stretches))] == ended
    assert sum(end - begin for begin, end in used) == sum(length for _, length in stretches)


def test_ruby_threads_have_long_turns() -> None:
    """Python interrupts the first thread after 5 ms, Ruby lets it end."""
    python, ruby = run([(0, 50), (1, 2)]), run([(0, 50), (1, 2)], turn=100)
    assert python[0] == {0: (52, 2), 1: (8, 5)}
    assert ruby[0] == {0: (50, 0), 1: (52, 49)}


def test_a_request_that_is_handed_over_needs_the_lock_once_more() -> None:
    """By hand: the first computes from 0 to 4; the second, of 2, arrives at 1.

    It is accepted at 4 and asks for the lock again, behind the third, which came at 2. The
    third is accepted at 4, too: both compute in the order of their arrival, 4 to 6 and 6 to 8.
    """
    site = Site(layout=Layout(pods=1, workers=1, threads=3), turn=5.0, hands_over=True)
    found = simulate([0.0, 1.0, 2.0], [4.0, 2.0, 2.0], site, Work(), Random(1))
    assert found.stages[RequestStage.LOCK] == (0.0, 3.0, 4.0)
    assert found.total == found.stages[RequestStage.LOCK]


def test_who_hands_over_waits_behind_what_came_between() -> None:
    """A quarter of each request computes, half of it sleeps, a quarter computes.

    The first computes 0 to 2 and is back at 6; the second computes 3 to 7. The third comes at 5: it
    is accepted at 7, and computes after the first, 9 to 10. Without handing over, it computes at 7,
    before the first.
    """
    work, load = Work(cpu=0.5), ([0.0, 3.0, 5.0], [8.0, 16.0, 4.0])
    layout = Layout(pods=1, workers=1, threads=3)
    plain, handed = (
        simulate(*load, Site(layout=layout, turn=5.0, hands_over=over), work, Random(1))
        for over in (False, True)
    )
    assert plain.stages[RequestStage.LOCK] == (2.0, 0.0, 2.0)
    assert handed.stages[RequestStage.LOCK] == (1.0, 0.0, 4.0)


def test_an_event_loop_takes_every_request_and_lets_it_wait_in_the_pool() -> None:
    """By hand: one connection; 0 to 4, 4 to 8, and the third, of 2, from 8 on."""
    site = Site(layout=Layout(pods=1, workers=1), any_number=True, pool=1)
    found = simulate([0.0, 1.0, 2.0], [4.0, 4.0, 2.0], site, Work(cpu=0, database=1), Random(1))
    assert found.stages[RequestStage.POOL] == (0.0, 3.0, 6.0)
    assert found.total == found.stages[RequestStage.POOL]
