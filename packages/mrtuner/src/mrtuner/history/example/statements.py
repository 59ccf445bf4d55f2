"""The statements of the example: how often each runs, and how long if nothing holds it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Final

_READ: Final = {"IO: DataFileRead": 0.86, "IPC: BufferIO": 0.14}
_COMMIT: Final = {"IO: WALSync": 0.45, "LWLock: WALWrite": 0.55}
_ROW_LOCK: Final = {"Lock: transactionid": 0.6, "IO: WALSync": 0.15, "LWLock: WALWrite": 0.25}
_REWRITE: Final = {"IO: DataFileRead": 0.45, "IO: WALSync": 0.25, "LWLock: WALWrite": 0.3}
_BATCH: Final = {"IO: DataFileRead": 0.7, "IO: BufFileWrite": 0.2, "IO: DataFileExtend": 0.1}


@dataclass(frozen=True, kw_only=True)
class Load:
    """One statement: its rates are those of working hours."""

    text: str
    role: str = "web"
    calls: float  # a second
    ms: float  # of one call, alone
    slower: float = 1.0  # times as long, while the ceiling holds everything back
    rows: float = 1.0
    reads: float = 0.0  # blocks from the volume, relative to the others
    hits: float = 10.0  # blocks found in shared_buffers
    wal: float = 0.0  # bytes, relative to the others
    temporary: float = 0.0  # blocks of temporary files
    waits: Mapping[str, float] = field(default_factory=lambda: _READ)
    job: bool = False  # runs at night only

    @cached_property
    def query_id(self) -> int:
        """Its identifier, which depends on the text alone."""
        return int.from_bytes(sha256(self.text.encode()).digest()[:7])

    @property
    def application(self) -> str:
        return {"web": "shop", "worker": "queue", "report": "metabase"}.get(self.role, self.role)


LOADS: Final = (
    Load(
        text="SELECT s.*, o.total FROM shipments s JOIN orders o USING (order_id) "
        "WHERE o.customer_id = $1 ORDER BY s.sent DESC",
        calls=40, ms=15, slower=35, rows=12, reads=60, hits=240,
    ),
    Load(
        text="SELECT date_trunc($1, o.created), sum(i.price * i.quantity) FROM orders o "
        "JOIN order_items i USING (order_id) WHERE o.created >= $2 GROUP BY 1",
        role="report", calls=0.5, ms=2500, slower=12, rows=90, reads=24_000, hits=9_000,
        temporary=5_000, waits=_BATCH,
    ),
    Load(
        text="SELECT * FROM orders WHERE customer_id = $1 ORDER BY created DESC LIMIT $2",
        calls=120, ms=4, slower=28, rows=20, reads=9, hits=60,
    ),
    Load(
        text="SELECT product_id, name, price FROM products WHERE search @@ to_tsquery($1) LIMIT $2",
        calls=12, ms=60, slower=18, rows=40, reads=180, hits=900,
    ),
    Load(
        text="SELECT i.*, p.name FROM order_items i JOIN products p USING (product_id) "
        "WHERE i.order_id = $1",
        calls=200, ms=2, slower=30, rows=4, reads=4, hits=30,
    ),
    Load(
        text="UPDATE documents SET status = $1, body = $2, changed = now() WHERE document_id = $3",
        role="worker", calls=30, ms=3, slower=60, reads=5, hits=40, wal=22_000, waits=_REWRITE,
    ),
    Load(
        text="UPDATE stock SET quantity = quantity - $1 WHERE product_id = $2",
        calls=40, ms=1.5, slower=90, reads=1, hits=12, wal=700, waits=_ROW_LOCK,
    ),
    Load(
        text="INSERT INTO events (kind, payload) VALUES ($1, $2)",
        role="worker", calls=150, ms=0.4, slower=60, hits=8, wal=900, waits=_COMMIT,
    ),
    Load(
        text="DELETE FROM events WHERE event_id IN "
        "(SELECT event_id FROM events WHERE created < $1 LIMIT $2)",
        role="worker", calls=0.3, ms=400, slower=25, rows=500, reads=700, hits=2_000, wal=60_000,
        waits=_REWRITE,
    ),
    Load(
        text="INSERT INTO orders (customer_id, total) VALUES ($1, $2) RETURNING order_id",
        calls=25, ms=1.2, slower=90, hits=14, wal=1_500, waits=_COMMIT,
    ),
    Load(
        text="SELECT * FROM carts WHERE session_id = $1",
        calls=300, ms=0.3, slower=10, reads=0.05, hits=4,
    ),
    Load(
        text="INSERT INTO daily_totals SELECT product_id, sum(quantity), sum(price * quantity) "
        "FROM order_items JOIN orders USING (order_id) WHERE created::date = $1 GROUP BY 1",
        role="batch", calls=0.05, ms=90_000, slower=3, rows=60_000, reads=220_000, hits=60_000,
        wal=4_000_000, temporary=40_000, waits=_BATCH, job=True,
    ),
    Load(
        text="COPY orders TO STDOUT",
        role="batch", calls=0.02, ms=110_000, slower=3, rows=900_000, reads=260_000, hits=20_000,
        waits=_BATCH, job=True,
    ),
)  # fmt: skip
