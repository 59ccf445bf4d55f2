"""The figures of docs/concepts/waiting.md: the simulation beside formulas and beside the seed.

    python bench/waiting_simulated.py            about a minute
    python bench/waiting_simulated.py --count 20000

Each figure is p95 wait in units of the mean service time, with the mean of ten seeds and, in
brackets, the deviation from seed to seed.
"""

from __future__ import annotations

import argparse
from random import Random
from statistics import fmean, stdev

from mrtuner_pods.waiting.erlang import screen
from mrtuner_pods.waiting.queues import Layout, quantile, settled, waits
from mrtuner_pods.waiting.routing import Routing
from mrtuner_pods.waiting.service_times import Times, arrivals

SEEDS = range(10)
WORKERS = 8
ONE, APART = Layout(pods=1, workers=WORKERS), Layout(pods=4, workers=2)


def p95(layout: Layout, routing: Routing, busy: float, variation: float, count: int) -> list[float]:
    """Return the p95 wait of each seed, in mean service times."""
    found = []
    for seed in SEEDS:
        chance = Random(seed)
        arriving = arrivals(busy * layout.slots, count, chance)
        times = Times(mean=1.0, variation=variation).draw(chance, count)
        found.append(quantile(settled(waits(arriving, times, layout, routing, chance)), 0.95))
    return found


def shown(values: list[float]) -> str:
    return f"{fmean(values):.2f} ({stdev(values):.2f})"


def routings(count: int) -> None:
    print("| c² | 1 pod x 8 | by formula |", end="")
    print("".join(f" 4 x 2 {routing.words} |" for routing in Routing))
    print("|:--|" + "--:|" * (2 + len(Routing)))
    for squared in (0, 1, 4):
        variation = squared**0.5
        formula = screen(
            rate=0.7 * WORKERS, service=1, variation=variation, pods=1, servers=WORKERS,
            routing=Routing.RANDOM,
        ).p95  # fmt: skip
        cells = [shown(p95(ONE, Routing.RANDOM, 0.7, variation, count)), f"{formula:.2f}"]
        cells += [shown(p95(APART, routing, 0.7, variation, count)) for routing in Routing]
        print(f"| {squared} | {' | '.join(cells)} |", flush=True)


def fifty_ms(count: int) -> None:
    print("| load | gain, in service times | service time with which it is 50 ms |")
    print("|--:|--:|--:|")
    for busy in (0.5, 0.6, 0.7, 0.8, 0.9):
        apart, together = (p95(each, Routing.RANDOM, busy, 1, count) for each in (APART, ONE))
        gains = [one - other for one, other in zip(apart, together, strict=True)]
        print(f"| {busy:.0%} | {shown(gains)} | {50 / fmean(gains):.0f} ms |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=120_000)
    count = parser.parse_args().count
    print(f"{count:,} requests, {len(SEEDS)} seeds\n")
    routings(count)
    print()
    fifty_ms(count)


if __name__ == "__main__":
    main()
