"""Sources, rows and batches for the tests of the history."""

from __future__ import annotations

from typing import Any

from mrtuner.history.recording.sampler import Row, Sampler, SourceSample
from mrtuner.history.recording.source import Source, built_in, parse
from mrtuner.history.store.writer import Batch
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.sql import OLDEST

SECOND = 1_000_000
#: 2026-11-23 00:00:00 UTC, in microseconds.
MIDNIGHT = 1_795_392_000 * SECOND

QUEUE = """\
/*
help = "Jobs of a queue"
interval = "1min"
reset = "since"

[keys]
queue = { help = "its name" }

[counters]
done = { help = "jobs done" }
busy_ms = { type = "float", unit = "ms", help = "time at work" }

[gauges]
waiting = { help = "jobs that wait" }
*/
SELECT 1
"""


def queue(keep: str = "35d") -> Source:
    """A source with a key, two counters and a gauge."""
    return parse("queue", {OLDEST: QUEUE.replace("interval", f'keep = "{keep}"\ninterval')})


def row(*values: Any, reset: str | None = None) -> Row:
    """A row with these values."""
    return Row(values=values, reset=reset)


def sample(source: Source, at: float, *rows: Row, monotonic: float | None = None) -> SourceSample:
    """A sample at so many seconds after midnight."""
    return SourceSample(
        source=source, at=MIDNIGHT + round(at * SECOND), rows=rows, cost=0.001,
        monotonic=float(at) if monotonic is None else monotonic,
    )  # fmt: skip


def batch(*samples: SourceSample, instance: str = "db:5432", **more: Any) -> Batch:
    """What was read of one instance."""
    return Batch(instance=instance, samples=samples, **more)


def sampled(cluster: Cluster, source: str, user: str = "postgres") -> SourceSample:
    """What a recorder reads of a source now."""
    with connect(cluster.dsn(user=user)) as conn:
        sampler = Sampler(conn)
        sampler.prepare()
        found = sampler.sample(built_in()[source])
    assert found is not None, sampler.missing
    return found


def sampled_rows(cluster: Cluster, source: str, user: str = "postgres") -> list[dict[str, Any]]:
    """The rows of it, by the names of their columns."""
    found = sampled(cluster, source, user)
    names = [column.name for column in found.source.columns]
    return [dict(zip(names, row.values, strict=True)) for row in found.rows]
