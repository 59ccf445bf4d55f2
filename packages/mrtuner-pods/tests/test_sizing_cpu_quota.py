"""A CPU limit as the kernel enforces it, worked out by hand: slices of 5 ms, ticks every 4 ms.

Times are in ms from the beginning of a period of 100 ms; ticks are at 4, 8, 12, …
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from mrtuner_pods.waiting.queues import Layout
from mrtuner_pods.waiting.stages import Site, Work, simulate


def stalls(quota: float, *pieces: tuple[float, float], renewal: float = 100) -> Sequence[float]:
    """How long each piece (begin, CPU time) is kept from running; each has a worker [ms]."""
    site = Site(layout=Layout(pods=1, workers=len(pieces)), quota=quota, renewals=(renewal / 1000,))
    arriving, times = ([each[part] / 1000 for each in pieces] for part in (0, 1))
    found = simulate(arriving, times, site, Work(), Random(1))
    return [stall * 1000 for stall in found.total]


@pytest.mark.parametrize(("takes", "stalled"), [(52, 0), (53, 48), (54, 48)])
def test_a_process_runs_until_the_tick_after_its_slice(takes: float, stalled: float) -> None:
    """Half a CPU is 50 ms. Slices are renewed at 8, 16, …, 40; at 48 there are 2 ms more, used up
    at 50, which is noticed at 52. What is left goes on at 100.
    """
    assert stalls(0.5, (0, takes)) == pytest.approx([stalled], abs=0.001)


def test_what_was_used_too_much_is_taken_from_the_next_period() -> None:
    """52 of 120 ms by 52, which is 2 too much: at 100 there are 48 more. Slices begin at 104 (9 ms,
    4 of them used), 112, 120, 128, 136 and, with the last 7 ms, at 144; all is used up at 148, on a
    tick. The other 20 ms go from 200 to 220.
    """
    assert stalls(0.5, (0, 120)) == pytest.approx([220 - 120], abs=0.001)


def test_an_idle_cpu_keeps_a_millisecond_and_gives_the_rest_back() -> None:
    """10 ms for two: each takes 5. The first ends at 2 and gives back 2 of its 3. The other is 3 in
    debt at 8, takes these 2 and stops, 1 in debt. At 100 it goes on, with 9: at 104 it takes all of
    them, 4 of which are used, and ends at 112.
    """
    assert stalls(0.1, (0, 2), (0, 20)) == pytest.approx([0, 112 - 20], abs=0.001)


def test_debts_of_several_cpus_are_paid_in_turn() -> None:
    """A third begins at 20 on the first's CPU, with its 1 ms, and stops at 24, 3 in debt, 6 to do.

    At 100 both debts, 1 and 3, leave 6. At 104 the other has used 4 and takes all 6; the third gets
    none and stops, 4 in debt and 2 to do. At 108 the other stops, 2 in debt and 4 to do. At 200 all
    debts are paid, and they end at 202 and at 204.
    """
    found = stalls(0.1, (0, 2), (0, 20), (20, 10))
    assert found == pytest.approx([0, 204 - 20, 202 - 20 - 10], abs=0.001)


def test_a_short_piece_begins_though_the_pool_is_empty() -> None:
    """As above, but the third needs 1.5 ms: it has 1, and nobody looks before 24."""
    assert stalls(0.1, (0, 2), (0, 20), (20, 1.5))[2] == 0


def test_what_is_given_back_wakes_a_stopped_process_after_5_ms() -> None:
    """15 ms: one piece takes 5 at 0, two take 5 at 7.5. The first stops at 8, 3 in debt; at 8.1 the
    others give back 3.4 each, more than a slice. At 13.1 the first goes on, with 4 ms to do.
    """
    waited = stalls(0.15, (0, 12), (7.5, 0.6), (7.5, 0.6))
    assert waited == pytest.approx([5.1, 0, 0], abs=0.001)


def test_what_is_given_back_late_waits_for_the_period() -> None:
    """The same, but given back 7 ms or less before the period ends: it ends at 15."""
    waited = stalls(0.15, (0, 12), (7.5, 0.6), (7.5, 0.6), renewal=15)
    assert waited == pytest.approx([7, 0, 0], abs=0.001)


def test_the_quota_is_renewed_when_the_pod_s_period_begins() -> None:
    """53 ms that begin 20 before the period ends need no stop: 50 of the next are enough."""
    assert stalls(0.5, (0, 53), renewal=20) == pytest.approx([0])
