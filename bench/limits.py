"""How long `mrtuner limits` takes for a fleet: `python bench/limits.py [INSTANCES]`.

Every instance has 14 days of minutes of some 8 metrics. Making them up is not counted; looking at
them is. Instances are looked at one by one, as they would be fetched, so memory does not grow.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from dataclasses import replace

from mrtuner.limits import limits
from mrtuner.limits.generate import Case, case

DAYS = 14
#: Different cases; a fleet repeats them.
DISTINCT = 20


def main() -> None:
    """Print milliseconds an instance and the most memory that was used."""
    instances = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    cases = [with_cpu(case(seed, days=DAYS)) for seed in range(DISTINCT)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = []
    for place in range(instances):
        one = cases[place % DISTINCT]
        began = time.process_time()
        limits(one.series, class_name=one.instance.name, storage=one.volume).to_dict()
        taken.append(time.process_time() - began)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    middle, worst = statistics.median(taken) * 1000, max(taken) * 1000
    metrics = statistics.mean(len(one.series.metrics) for one in cases)
    print(f"{instances} instances, {DAYS} days of minutes, {metrics:.1f} metrics each on average")
    print(
        f"CPU time: {sum(taken):.1f} s in all, {middle:.0f} ms at the median, {worst:.0f} at most"
    )
    print(
        f"memory: {after / 1024:.0f} MiB at most, {(after - before) / 1024:.0f} of them for looking"
    )


def with_cpu(one: Case) -> Case:
    """The same with CPUUtilization."""
    import numpy as np

    random = np.random.default_rng(one.seed)
    cpu = random.normal(40, 8, one.series.points)
    metrics = {**one.series.metrics, "CPUUtilization": cpu}
    return replace(one, series=replace(one.series, metrics=metrics))


if __name__ == "__main__":
    main()
