"""An hour with two incidents that anybody can check by hand: a queue for a lock, and a storm.

02:00 to 03:00 on 2026-11-23. Two sessions of `shop` run on CPUs all the time, and the checkpointer
writes. From 02:20:00 to 02:20:40, `psql` (process 500) is idle in a transaction. Process 600 of
`checkout` waits for it, and 601 to 629 wait for 600. From 02:40 to 02:42 there are 90 sessions of
100, else 20.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from history_data import batch, sample
from history_story import INSTANCE, of_source

from mrtuner.history.recording.sampler import Row, SourceSample
from mrtuner.history.recording.source import Source, built_in
from mrtuner.history.store.writer import Writer

BEGIN = 2 * 3600
QUEUE = range(BEGIN + 1200, BEGIN + 1241)
STORM = range(BEGIN + 2400, BEGIN + 2521)
HELD, WAITING, RUNNING = 51, 52, 53
TEXTS = {
    HELD: "UPDATE account SET balance = $1 WHERE id = $2",
    WAITING: "SELECT balance FROM account WHERE id = $1 FOR UPDATE",
    RUNNING: "SELECT * FROM product WHERE id = $1",
}


def incident(directory: Path, without: str = "") -> Path:
    """Record that hour, without one of the sources."""
    known = {name: source for name, source in built_in().items() if name != without}
    samples = [one for second in range(BEGIN, BEGIN + 3600) for one in _samples(known, second)]
    with Writer(directory, known.values()) as writer:
        writer.commit([batch(*samples, instance=INSTANCE, texts=TEXTS)])
    return directory


def _samples(known: dict[str, Source], second: int) -> Iterator[SourceSample]:
    read = {"sessions": _sessions(second)} if "sessions" in known else {}
    if second % 10 == 0:
        clients = 90 if second in STORM else 20
        read["connections"] = [
            of_source("connections", clients=clients, active=2, maximum=100, ordinary=100)
        ]
    if second % 60 == 0:
        read["statements"], read["checkpoints"] = [], [of_source("checkpoints")]
        read["databases"] = []
    for name, rows in read.items():
        if name in known:
            yield sample(known[name], second, *rows)


def _sessions(second: int) -> list[Row]:
    def client(pid: int, application: str, query: int, **more: object) -> Row:
        row = {"pid": pid, "application": application, "query_id": query, "database": "app",
               "role": "web", "backend_type": "client backend", "state": "active"}  # fmt: skip
        return of_source("sessions", **(row | more))

    found = [client(pid, "shop", RUNNING) for pid in (101, 102)]
    found.append(of_source("sessions", pid=7, backend_type="checkpointer", wait_type="IO",
                           wait_event="DataFileWrite"))  # fmt: skip
    if second in QUEUE:
        age = second - QUEUE[0]
        found.append(client(500, "psql", HELD, state="idle in transaction",
                            transaction_seconds=age + 60, statement_seconds=age + 55))  # fmt: skip
        for pid in range(600, 630):
            found.append(client(
                pid, "checkout", WAITING, wait_type="Lock", transaction_seconds=age,
                wait_event="transactionid" if pid == 600 else "tuple", statement_seconds=age,
                blocked_by="500" if pid == 600 else "600",
            ))  # fmt: skip
    return found
