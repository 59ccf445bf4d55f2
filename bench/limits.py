"""How long `mrtuner limits` takes for a fleet: `python bench/limits.py [INSTANCES] [--fetch]`.

Every instance has 14 days of minutes of some 8 metrics. Generating them is not timed; the analysis
is. Instances are analysed one by one, as they would be fetched, so memory does not grow.
With --fetch they also pass through batches and the cache, with CloudWatch's answers generated in
memory: the network and AWS's own time are not included.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mrtuner.aws import cloudwatch
from mrtuner.aws.rows import Instance
from mrtuner.aws.session import Account
from mrtuner.limits import limits
from mrtuner.limits.fleet import fleet

sys.path.insert(0, str(Path(__file__).parents[1] / "packages" / "mrtuner" / "tests" / "limits"))

from limits_generate import case
from limits_truth import Case

DAYS = 14
#: Different cases; a fleet repeats them.
DISTINCT = 20


def main() -> None:
    """Print CPU milliseconds per instance and the peak of memory."""
    numbers = [int(text) for text in sys.argv[1:] if text.isdigit()]
    instances = next(iter(numbers), 1000)
    cases = [with_cpu(case(seed, days=DAYS)) for seed in range(DISTINCT)]
    if "--fetch" in sys.argv:
        fetched(instances, cases)
    else:
        looked_at(instances, cases)


def looked_at(instances: int, cases: Sequence[Case]) -> None:
    """The analysis alone."""
    before = most_memory()
    taken = []
    for place in range(instances):
        one = cases[place % DISTINCT]
        began = time.process_time()
        limits(one.series, class_name=one.instance.name, storage=one.volume).to_dict()
        taken.append(time.process_time() - began)
    middle, worst = statistics.median(taken) * 1000, max(taken) * 1000
    metrics = statistics.mean(len(one.series.metrics) for one in cases)
    print(f"{instances} instances, {DAYS} days of minutes, {metrics:.1f} metrics each on average")
    print(
        f"CPU time: {sum(taken):.1f} s in all, {middle:.0f} ms at the median, {worst:.0f} at most"
    )
    print(f"memory: {most_memory():.0f} MiB at most, {most_memory() - before:.0f} for looking")


def fetched(instances: int, cases: Sequence[Case]) -> None:
    """With batches and the cache: first empty, then full except for the current day."""
    answers = Answers(cases)
    cloudwatch.metric_data = answers  # type: ignore[assignment]
    os.environ.setdefault("AWS_DEFAULT_REGION", "eu-west-1")
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    rows = [row_of(place, cases) for place in range(instances)]
    with tempfile.TemporaryDirectory() as name:
        os.environ["MRTUNER_CACHE_DIR"] = name
        for cache in ("empty", "full"):
            answers.pages, answers.made = 0, 0.0
            before, began = most_memory(), time.process_time()
            start = midnight - timedelta(days=DAYS - 1)
            end = midnight + timedelta(days=1, minutes=-1)
            count = sum(1 for _ in fleet(rows, start, end, Account()))
            taken = time.process_time() - began - answers.made
            size = sum(file.stat().st_size for file in Path(name).rglob("*.gz")) / 2**20
            print(
                f"{count} instances, cache {cache}: {answers.pages} pages of GetMetricData, "
                f"{taken / count * 1000:.0f} ms of CPU time an instance, "
                f"{most_memory():.0f} MiB at most ({most_memory() - before:.0f} more), "
                f"cache {size / count:.2f} MiB an instance"
            )


class Answers:
    """CloudWatch's answers, generated; `made` is the CPU time that this took [s]."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases, self.pages, self.made = cases, 0, 0.0

    def __call__(
        self, _client: Any, wanted: Sequence[cloudwatch.Wanted], start: datetime, end: datetime,
        *, period: int, **_: Any,
    ) -> Mapping[cloudwatch.Wanted, cloudwatch.Points]:  # fmt: skip
        began = time.process_time()
        minutes = int((end - start).total_seconds() // period)
        found, points = {}, 0
        for one in wanted:
            values: Any = self.cases[int(one.instance) % DISTINCT].series.metrics.get(
                one.metric, []
            )
            times = [
                start + timedelta(seconds=period * n) for n in range(min(minutes, len(values)))
            ]
            found[one] = cloudwatch.Points(times, [float(v) for v in values[: len(times)]])
            points += len(times)
        self.pages += -(-points // cloudwatch.POINTS)
        self.made += time.process_time() - began
        return found


def row_of(place: int, cases: Sequence[Case]) -> Instance:
    """An instance as RDS would list it."""
    one = cases[place % DISTINCT]
    volume = one.volume
    return Instance(
        identifier=str(place), arn="", resource_id=f"db-{place}", class_name=one.instance.name,
        engine="postgres", engine_version="17.2", status="available", groups=(),
        storage_type=volume.kind if volume else None,
        allocated_storage=volume.gib if volume else 0, iops=volume.iops if volume else None,
    )  # fmt: skip


def most_memory() -> float:
    """Return the peak of this process's memory [MiB]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def with_cpu(one: Case) -> Case:
    """Return the case with CPUUtilization added."""
    import numpy as np

    random = np.random.default_rng(one.seed)
    cpu = random.normal(40, 8, one.series.points)
    metrics = {**one.series.metrics, "CPUUtilization": cpu}
    return replace(one, series=replace(one.series, metrics=metrics))


if __name__ == "__main__":
    main()
