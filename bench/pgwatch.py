"""pgwatch's own SQL on one server, at the intervals of one of its presets, until it is stopped:

    python bench/pgwatch.py DSN metrics.yaml exhaustive

metrics.yaml is a copy of pgwatch's internal/metrics/metrics.yaml, which is not kept here. This
shows what the queries cost a server, not the cost of pgwatch's own process, which is written in
Go. Like pgwatch, it queries each metric at once and then at its interval; unlike pgwatch, it runs
all queries over one connection, one after the other.
"""

from __future__ import annotations

import heapq
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import yaml

APPLICATION = "pgwatch"
#: What the metrics of sessions and statements need; other extensions and helpers are not created.
EXTENSION = "pg_stat_statements"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of a preset, as one server gets it."""

    name: str
    interval: float  # seconds
    sql: str


def preset(
    file: Path, name: str, major: int, *, standby: bool = False
) -> tuple[list[Metric], dict[str, str]]:
    """Return a preset's metrics for a server of this major version, and why others are left out.

    A metric's SQL is keyed by the oldest major version that understands it: the newest usable one
    counts.
    """
    known: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    if name not in known["presets"]:
        sys.exit(f"error: {file} has no preset {name}; it has {', '.join(known['presets'])}")
    used, left_out = [], {}
    role = "standby" if standby else "primary"
    for metric, interval in known["presets"][name]["metrics"].items():
        declared = known["metrics"].get(metric)
        if declared is None:
            left_out[metric] = "not in the file"
            continue
        usable = [since for since in declared["sqls"] if since <= major]
        sql = declared["sqls"][max(usable)].strip() if usable else ""
        if declared.get("node_status", role) != role:
            left_out[metric] = f"is for a {declared['node_status']}"
        elif EXTENSION not in declared.get("init_sql", EXTENSION):
            left_out[metric] = "needs helpers of its own"
        elif not sql:
            left_out[metric] = "is no query" if usable else "is for later versions"
        else:
            used.append(Metric(metric, float(interval), sql))
    return used, left_out


def main(dsn: str, file: str, name: str) -> None:
    with psycopg.connect(dsn, autocommit=True, application_name=APPLICATION) as session:
        metrics, _ = preset(Path(file), name, session.info.server_version // 10_000)
        due = [(time.monotonic(), number) for number in range(len(metrics))]
        while True:
            at, number = heapq.heappop(due)
            time.sleep(max(0.0, at - time.monotonic()))
            try:
                session.execute(metrics[number].sql.encode()).fetchall()
            except psycopg.DatabaseError as error:
                sys.exit(f"error: {metrics[number].name}: {error}")
            heapq.heappush(due, (at + metrics[number].interval, number))


if __name__ == "__main__":
    main(*sys.argv[1:])
