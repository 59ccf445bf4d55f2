"""Who accepts a request: by hand, and compared with SimPy, which is told how Puma does it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import simpy

from mrtuner_pods.waiting.queues import Accepting, Layout, quantile, settled, waits
from mrtuner_pods.waiting.routing import Routing
from mrtuner_pods.waiting.service_times import Times, arrivals
from mrtuner_pods.waiting.stages import Site, Work, simulate

ASLEEP = Work(cpu=0.0)
TWO_BY_TWO = Layout(pods=1, workers=2, threads=2, accept_delay=0.005)
Steps = Generator[simpy.Event, Any, None]


def waited(layout: Layout, *load: tuple[float, float]) -> list[float]:
    """The waits of requests, each with its arrival and its service time [s]."""
    arriving, times = [each[0] for each in load], [each[1] for each in load]
    return list(simulate(arriving, times, Site(layout=layout), ASLEEP, Random(1)).total)


def test_a_busy_worker_leaves_a_request_to_an_idle_one() -> None:
    """The second request finds one worker busy and one idle, which takes it at once."""
    assert waited(TWO_BY_TWO, (0.0, 1.0), (0.1, 1.0)) == [0, 0]


def test_where_all_are_busy_a_request_waits_for_the_delay() -> None:
    assert waited(TWO_BY_TWO, (0.0, 1.0), (0.1, 1.0), (0.2, 1.0)) == pytest.approx([0, 0, 0.005])


def test_a_worker_that_finishes_a_request_waits_no_longer() -> None:
    """The first ends at 1.0, 2 ms after the third arrived."""
    assert waited(TWO_BY_TWO, (0.0, 1.0), (0.1, 1.0), (0.998, 1.0)) == pytest.approx([0, 0, 0.002])


def test_a_full_worker_waits_for_a_thread_and_then_for_the_delay() -> None:
    """Both are full from 0.305 until 1.0; then the worker of the first still has the third."""
    load = ((0.0, 1.0), (0.1, 1.0), (0.2, 1.0), (0.3, 1.0), (0.4, 1.0))
    assert waited(TWO_BY_TWO, *load)[4] == pytest.approx(0.6 + 0.005)


@pytest.mark.parametrize(("workers", "threads"), [(2, 1), (1, 2)])
def test_one_worker_and_workers_of_one_thread_never_wait_for_others(
    workers: int, threads: int
) -> None:
    layout = Layout(pods=1, workers=workers, threads=threads, accept_delay=0.005)
    load = ((0.0, 1.0), (0.1, 1.0), (0.2, 1.0))
    assert waited(layout, *load) == pytest.approx([0, 0, 0.8])


def test_the_least_busy_worker_accepts_though_another_is_free_first() -> None:
    """The third request goes to the worker with the short one; the fourth goes to the other
    worker, and waits for it until 9.0 although the first worker is idle from 2.0 on."""
    layout = Layout(pods=1, workers=2, accepting=Accepting.LEAST_BUSY)
    load = ((0.0, 1.0), (0.1, 8.9), (0.2, 1.0), (0.3, 1.0))
    assert sorted(waited(layout, *load)) == pytest.approx([0, 0, 0.8, 8.7])


class Pod:
    """A pod of Puma, process by process."""

    def __init__(self, layout: Layout) -> None:
        self.clock = simpy.Environment()
        self.layout = layout
        self.queue: list[tuple[int, float]] = []
        self.busy = [0] * layout.workers
        self.freed = [self.clock.event() for _ in self.busy]
        self.arrived = self.clock.event()
        self.began: dict[int, float] = {}

    def load(self, arriving: list[float], times: list[float]) -> list[float]:
        if self.layout.accepting is Accepting.FREE:
            for worker in range(self.layout.workers):
                self.clock.process(self.accept(worker))
        self.threads = [simpy.Resource(self.clock, self.layout.threads) for _ in self.busy]
        self.clock.process(self.arrive(arriving, times))
        self.clock.run(until=arriving[-1] + 100 * max(times))
        return [self.began[number] - arrival for number, arrival in enumerate(arriving)]

    def arrive(self, arriving: list[float], times: list[float]) -> Steps:
        for number, (arrival, time) in enumerate(zip(arriving, times, strict=True)):
            yield self.clock.timeout(arrival - self.clock.now)
            if self.layout.accepting is Accepting.LEAST_BUSY:
                worker = self.busy.index(min(self.busy))
                self.busy[worker] += 1
                self.clock.process(self.queue_for(worker, number, time))
                continue
            self.queue.append((number, time))
            heard, self.arrived = self.arrived, self.clock.event()
            heard.succeed()

    def accept(self, worker: int) -> Steps:
        """Puma 6: server.rb, handle_servers."""
        while True:
            if not self.queue:
                yield self.arrived
            while self.busy[worker] >= self.layout.threads:
                yield self.freed[worker]
            if self.busy[worker]:
                yield self.clock.timeout(self.layout.accept_delay) | self.freed[worker]
            if self.queue:
                self.busy[worker] += 1
                number, time = self.queue.pop(0)
                self.began[number] = self.clock.now
                self.clock.process(self.serve(worker, time))

    def serve(self, worker: int, time: float) -> Steps:
        yield self.clock.timeout(time)
        self.busy[worker] -= 1
        heard, self.freed[worker] = self.freed[worker], self.clock.event()
        heard.succeed()

    def queue_for(self, worker: int, number: int, time: float) -> Steps:
        """Puma 7: a worker queues any number of requests of its own."""
        with self.threads[worker].request() as thread:
            yield thread
            self.began[number] = self.clock.now
            yield self.clock.timeout(time)
        self.busy[worker] -= 1


@pytest.mark.parametrize(
    "layout",
    [
        Layout(pods=1, workers=4, threads=2, accept_delay=0.005),
        Layout(pods=1, workers=2, threads=5, accept_delay=0.02),
        Layout(pods=1, workers=4, threads=2, accepting=Accepting.LEAST_BUSY),
        Layout(pods=1, workers=8, threads=1, accepting=Accepting.LEAST_BUSY),
    ],
    ids=str,
)
def test_it_is_as_simpy_has_it(layout: Layout) -> None:
    arriving = arrivals(0.8 * layout.slots / 0.030, 30_000, Random(1))
    times = Times(mean=0.030).draw(Random(2), len(arriving))
    ours = simulate(arriving, times, Site(layout=layout), ASLEEP, Random(3)).total
    other = Pod(layout).load(arriving, times)
    for share in (0.5, 0.95):
        found, expected = (quantile(settled(each), share) for each in (ours, other))
        assert found == pytest.approx(expected, rel=0.03, abs=0.0003)
    one_queue = simulate(
        arriving, times,
        Site(layout=replace(layout, accepting=Accepting.FREE, accept_delay=0.0)), ASLEEP, Random(3),
    ).total  # fmt: skip
    assert sum(ours) > 1.1 * sum(one_queue)


def test_queues_of_the_least_busy_worker_are_between_one_queue_and_chance() -> None:
    arriving = arrivals(0.8 * 8 / 0.030, 30_000, Random(1))
    times = Times(mean=0.030).draw(Random(2), len(arriving))
    p95 = [
        quantile(waits(arriving, times, layout, Routing.RANDOM, Random(3)), 0.95)
        for layout in (Layout(pods=1, workers=8, accepting=one) for one in Accepting)
    ]
    free, chance, least_busy = p95
    assert free < least_busy < 0.5 * chance
