"""The server of the example: turns the instance's metrics into what a recorder would read.

Little's law ties it together: active sessions are calls per second times the time of a call, and
the volume's I/O is divided among the statements that read and write.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mrtuner.history.example.statements import LOADS, Load
from mrtuner.history.example.tables import Table, tables
from mrtuner.units import PAGE

#: Values by source: what a sample of it returned.
Read = tuple[str, Sequence[Mapping[str, Any]]]

DATABASE: Final = "shop"
REPLICA: Final = "shop-replica"
#: Calls at night and at the weekend, as a share of those in working hours.
_QUIET: Final = 0.15
#: Share of WAL in what is written; the rest is data, mostly by the checkpointer.
_WAL: Final = 0.45
#: Share of an undisturbed call that runs on a CPU.
_ON_CPU: Final = 0.5
#: Share of the order items' sequence that is used when the example begins.
_ITEMS_NUMBERED: Final = 0.31
MAX_CONNECTIONS: Final = 400
#: RDS starts a checkpoint every five minutes, or earlier when WAL forces one.
_CHECKPOINT_MINUTES: Final = 5
_COMPLETION: Final = 0.9
_MB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """What happened on the instance in a minute."""

    number: int  # since the beginning
    working: bool
    job: bool
    jam: float  # 0: all demand was served; 1: most was held back
    metrics: Mapping[str, float]  # by CloudWatch's names


@dataclass
class ExampleServer:
    """The server's counters since it was created; `pass_minute` advances them."""

    random: random.Random
    max_wal_size: int = 8192  # MB
    tables: Sequence[Table] = field(default_factory=tables)
    calls: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0] * 8))
    totals: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    since_checkpoint: float = 0.0  # bytes of WAL
    last_checkpoint: int = 0  # number of its minute
    lag: float = 0.0  # of the replica [s]

    def pass_minute(self, now: Minute, *, held_for: float) -> None:
        """Count what happens in a minute; `held_for`: age of a forgotten transaction [s], or 0."""
        moved = now.metrics
        reads, wal = self._weights(now)
        for load in LOADS:
            calls = 60 * calls_a_second(load, now)
            seen = self.calls[load.text]
            blocks = moved["ReadThroughput"] * 60 / PAGE * load.reads * calls / reads
            grown = (
                calls, calls * call_ms(load, now), calls * load.rows, calls * load.hits, blocks,
                moved["WriteThroughput"] * 60 * _WAL * load.wal * calls / wal,
                calls * load.temporary,
                min(blocks * moved["ReadLatency"] * 1000 / 4, 0.8 * calls * call_ms(load, now)),
            )  # fmt: skip
            for place, growth in enumerate(grown):
                seen[place] += growth
            self._count(load, grown)
        self._write(now)
        self.totals["sessions"] += 3 + 12 * _activity(now)
        activity = _activity(now) * (1 - 0.3 * now.jam)
        vacuumed = [one.pass_minute(activity, held=held_for > 0) for one in self.tables]
        self.totals["vacuum_read"] += sum(vacuumed) * 900 * _MB
        # A replica on the same class replays as slowly as its volume writes.
        self.lag = 0.7 * self.lag + 0.3 * (0.2 + 26 * now.jam * self.random.uniform(0.6, 1.4))

    def _weights(self, now: Minute) -> tuple[float, float]:
        rates = [(load, 60 * calls_a_second(load, now)) for load in LOADS]
        return (
            sum(load.reads * calls for load, calls in rates) or 1.0,
            sum(load.wal * calls for load, calls in rates) or 1.0,
        )

    def _count(self, load: Load, grown: Sequence[float]) -> None:
        calls, ms, rows, hits, blocks, _, temporary, _ = grown
        self.totals["commits"] += calls
        self.totals["active_ms"] += ms
        self.totals["hits"] += hits
        self.totals["blocks"] += blocks
        self.totals["temporary"] += temporary
        self.totals["rows"] += rows
        if load.waits.get("IO: BufFileWrite"):
            self.totals["bulk_blocks"] += blocks

    def _write(self, now: Minute) -> None:
        written = now.metrics["WriteThroughput"] * 60
        self.totals["wal"] += written * _WAL
        self.since_checkpoint += written * _WAL
        self.totals["data"] += written * (1 - _WAL)
        self.totals["write_ms"] += 60_000 * _COMPLETION * 0.95
        self.totals["sync_ms"] += 60_000 * (0.002 + 0.03 * now.jam)
        early = self.since_checkpoint > self.max_wal_size * _MB / (1 + _COMPLETION)
        if early or now.number - self.last_checkpoint >= _CHECKPOINT_MINUTES:
            self.totals["requested" if early else "timed"] += 1
            self.since_checkpoint, self.last_checkpoint = 0.0, now.number
            self.totals["full_pages"] += written * _WAL / PAGE * 0.6
        self.totals["full_pages"] += written * _WAL / PAGE * 0.15
        self.totals["records"] += written * _WAL / 160

    def read(self, now: Minute, *, held_for: float) -> Iterator[Read]:
        """What a recorder reads at the end of a minute."""
        yield "statements", [self._statement(load) for load in LOADS if self.calls[load.text][0]]
        yield "databases", [self._database()]
        yield "wal", [{
            "bytes": int(self.totals["wal"]), "records": int(self.totals["records"]),
            "full_page_images": int(self.totals["full_pages"]), "buffers_full": 0,
        }]  # fmt: skip
        yield "checkpoints", [self._checkpoints()]
        yield "io", list(self._io())
        yield "connections", [self._connections(now, held_for)]
        yield "replication", [self._replica(now)]
        yield "slots", [{
            "name": "rds_replica", "kind": "physical", "active": True, "status": "reserved",
            "retained": int(self.lag * now.metrics["WriteThroughput"] * _WAL), "safe": None,
            "xmin_age": None,
        }]  # fmt: skip
        kept = self.since_checkpoint + self.max_wal_size * _MB / 4
        segment = 64 * _MB  # RDS's
        yield "wal_directory", [{
            "bytes": int(kept) // segment * segment, "files": int(kept) // segment,
        }]  # fmt: skip
        yield "progress", [one.progress(DATABASE) for one in self.tables if one.at_work]
        if now.number % 5 == 0:
            yield "tables", [one.values(DATABASE) for one in self.tables]
            age = 41_000_000 + int(self.totals["commits"] * 0.4)
            yield "ages", [{
                "database": DATABASE, "age": age // 100_000 * 100_000, "multixact_age": 1_200_000,
            }]  # fmt: skip
        if now.number % 60 == 0:
            bloat = [(one.bloat(DATABASE), one.index_bloat(DATABASE)) for one in self.tables]
            yield "bloat", [row for both in bloat for row in both]
            yield "sequences", [{
                "database": DATABASE, "schema": "public", "name": "order_items_id_seq",
                "used_by": "public.order_items.id", "maximum": 2**31 - 1,
                "used": round(_ITEMS_NUMBERED + self.tables[1].new / 2**31, 3),
            }]  # fmt: skip

    def _statement(self, load: Load) -> dict[str, Any]:
        calls, ms, rows, hits, blocks, wal, temporary, read_ms = self.calls[load.text]
        return {
            "database": DATABASE, "role": load.role, "query_id": load.query_id, "toplevel": True,
            "calls": int(calls), "plans": 0, "exec_ms": round(ms, 3), "plan_ms": 0.0,
            "rows": int(rows), "blocks_hit": int(hits), "blocks_read": int(blocks),
            "blocks_dirtied": int(wal / 900), "blocks_written": 0,
            "temp_blocks_read": int(temporary), "temp_blocks_written": int(temporary),
            "read_ms": round(read_ms, 3), "write_ms": 0.0, "wal_bytes": int(wal),
            "jit_ms": 0.0,
        }  # fmt: skip

    def _database(self) -> dict[str, Any]:
        has = self.totals
        return {
            "database": DATABASE, "commits": int(has["commits"]),
            "rollbacks": int(has["commits"] / 400), "blocks_read": int(has["blocks"]),
            "blocks_hit": int(has["hits"]), "rows_returned": int(has["rows"] * 2),
            "rows_fetched": int(has["rows"]), "rows_inserted": int(has["commits"] / 4),
            "rows_updated": int(has["commits"] / 8), "rows_deleted": int(has["commits"] / 8),
            "temp_files": int(has["temporary"] / 5_000),
            "temp_bytes": int(has["temporary"]) * PAGE, "deadlocks": 0, "conflicts": 0,
            "active_ms": round(has["active_ms"], 3), "sessions": int(has["sessions"]),
            "sessions_lost": 0,
        }  # fmt: skip

    def _checkpoints(self) -> dict[str, Any]:
        has = self.totals
        return {
            "timed": int(has["timed"]), "requested": int(has["requested"]),
            "write_ms": round(has["write_ms"], 3), "sync_ms": round(has["sync_ms"], 3),
            "buffers_written": int(has["data"] * 0.8 / PAGE),
            "buffers_cleaned": int(has["data"] * 0.15 / PAGE), "clean_stops": 0,
            "buffers_allocated": int(has["blocks"]),
        }  # fmt: skip

    def _io(self) -> Iterator[dict[str, Any]]:
        has = self.totals
        blocks, bulk = has["blocks"] * PAGE, has["bulk_blocks"] * PAGE
        for process, context, read, written in (
            ("client backend", "normal", blocks - bulk, has["data"] * 0.03),
            ("client backend", "bulkread", bulk, 0.0),
            ("autovacuum worker", "vacuum", has["vacuum_read"], has["vacuum_read"] * 0.1),
            ("checkpointer", "normal", 0.0, has["data"] * 0.8),
            ("background writer", "normal", 0.0, has["data"] * 0.15),
        ):
            yield {
                "backend_type": process, "object": "relation", "context": context,
                "reads": int(read / PAGE), "read_bytes": int(read), "read_ms": 0.0,
                "writes": int(written / PAGE), "write_bytes": int(written), "write_ms": 0.0,
                "extends": 0, "extend_bytes": int(has["data"] * 0.02) if written and read else 0,
                "hits": int(has["hits"]) if context == "normal" and read else 0,
                "evictions": int(read / PAGE), "fsyncs": 0, "fsync_ms": 0.0,
            }  # fmt: skip

    def _connections(self, now: Minute, held_for: float) -> dict[str, Any]:
        at_work = sum(sessions(load, now) for load in LOADS)
        clients = max(int(now.metrics["DatabaseConnections"]), int(at_work) + 5)
        longest = max(call_ms(load, now) for load in LOADS if calls_a_second(load, now)) / 1000
        forgotten = 1 if held_for else 0
        return {
            "clients": clients, "active": int(at_work),
            "idle": clients - int(at_work) - forgotten, "idle_in_transaction": forgotten,
            "waiting": int(sum(
                sessions(load, now) * share * _waiting(load, now)
                for load in LOADS for wait, share in load.waits.items() if wait.startswith("Lock")
            )),
            "oldest_transaction": round(max(longest, held_for), 1),
            "oldest_snapshot": int(held_for * 300 + 40), "maximum": MAX_CONNECTIONS,
            "ordinary": MAX_CONNECTIONS - 3,
        }  # fmt: skip

    def _replica(self, now: Minute) -> dict[str, Any]:
        behind = int(self.lag * now.metrics["WriteThroughput"] * _WAL)
        return {
            "application": REPLICA, "client": "10.0.3.17", "pid": 611, "state": "streaming",
            "sync_state": "async", "sent_behind": behind // 20, "flush_behind": behind // 3,
            "replay_behind": behind, "write_lag": round(self.lag * 0.2, 3),
            "flush_lag": round(self.lag * 0.3, 3), "replay_lag": round(self.lag, 3),
        }  # fmt: skip

    def sessions(self, now: Minute, *, held_for: float) -> list[dict[str, Any]]:
        """Return the sessions that one query of pg_stat_activity finds."""
        found: list[dict[str, Any]] = []
        for number, load in enumerate(LOADS):
            count = int(sessions(load, now) + self.random.random())
            first = 4000 + 100 * number
            for pid in range(first, first + count):
                found.append(self._session(load, now, pid, first))
        if held_for:
            found.append(_client(
                pid=3871, role="admin", application="psql", state="idle in transaction",
                wait_type="Client", wait_event="ClientRead", query_id=LOADS[2].query_id,
                transaction_seconds=int(held_for), statement_seconds=int(held_for),
            ))  # fmt: skip
        if self.random.random() < 0.4 + 0.5 * now.jam:
            found.append({
                "pid": 512, "backend_type": "checkpointer", "wait_type": "IO",
                "wait_event": "DataFileWrite",
            })  # fmt: skip
        return found

    def _session(self, load: Load, now: Minute, pid: int, first: int) -> dict[str, Any]:
        wait: tuple[str | None, ...] = (None, None)
        if self.random.random() < _waiting(load, now):
            names = list(load.waits)
            chosen = self.random.choices(names, [load.waits[name] for name in names])[0]
            wait = tuple(chosen.split(": "))
        seconds = int(call_ms(load, now) / 1000 * self.random.random())
        return _client(
            pid=pid, role=load.role, application=load.application, state="active",
            wait_type=wait[0], wait_event=wait[1], query_id=load.query_id,
            transaction_seconds=seconds, statement_seconds=seconds,
            blocked_by=None if wait[0] != "Lock" else str(first) if pid > first else "",
        )  # fmt: skip


def _client(**values: Any) -> dict[str, Any]:
    return {"database": DATABASE, "backend_type": "client backend", **values}


def _activity(now: Minute) -> float:
    return 1.0 if now.working else _QUIET


def calls_a_second(load: Load, now: Minute) -> float:
    """Return how many calls of a statement end per second: at the ceiling, fewer than wanted."""
    if load.job:
        return load.calls if now.job else 0.0
    return load.calls * _activity(now) * (1 - 0.35 * now.jam)


def call_ms(load: Load, now: Minute) -> float:
    return load.ms * (1 + (load.slower - 1) * now.jam)


def sessions(load: Load, now: Minute) -> float:
    """How many sessions a statement keeps busy: Little's law."""
    return calls_a_second(load, now) * call_ms(load, now) / 1000


def _waiting(load: Load, now: Minute) -> float:
    return 1 - _ON_CPU * load.ms / call_ms(load, now)
