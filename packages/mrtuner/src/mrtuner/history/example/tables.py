"""The tables of the example: what changes in them, and when autovacuum runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mrtuner.units import PAGE

_SCALE_FACTOR: Final = 0.2
_THRESHOLD: Final = 50
#: Size of the indexes, as a share of the heap.
_INDEXES: Final = 0.4


@dataclass(slots=True, kw_only=True)
class Table:
    """One table; its rates are those of working hours."""

    name: str
    relation: int
    live: float
    row: int  # bytes
    inserted: float = 0.0  # rows a second
    updated: float = 0.0
    deleted: float = 0.0
    hot: float = 0.0  # share of the updates
    chunks: int = 0  # of TOAST, in each value
    # What has happened.
    dead: float = 0.0
    toast_dead: float = 0.0
    pages: float = 0.0  # vacuum seldom returns them
    toast_pages: float = 0.0
    autovacuums: int = 0
    vacuums_begun: int = 0
    at_work: bool = False  # a vacuum
    new: float = 0.0
    changed: float = 0.0
    gone: float = 0.0

    def pass_minute(self, activity: float, *, held: bool) -> bool:
        """Advance by a minute; return whether autovacuum ran, which removes nothing if `held`."""
        seconds = 60 * activity
        self.new += self.inserted * seconds
        self.changed += self.updated * seconds
        self.gone += self.deleted * seconds
        self.live += (self.inserted - self.deleted) * seconds
        self.dead += (self.updated * (1 - 0.5 * self.hot) + self.deleted) * seconds
        self.toast_dead += self.chunks * self.updated * seconds
        self.pages = max(self.pages, (self.live + self.dead) * self.row / PAGE)
        due = self.dead > _THRESHOLD + _SCALE_FACTOR * self.live
        self.vacuums_begun += due and not self.at_work
        self.at_work = due
        if due and not held:
            self.autovacuums += 1
            self.toast_pages = max(self.toast_pages, self.chunks * self.live / 4)
            self.toast_pages += self.toast_dead / 4
            self.dead = self.toast_dead = 0.0
        return due

    def values(self, database: str) -> dict[str, Any]:
        """Return its row of the source `tables`."""
        pages, toast = int(self.pages), self._toast
        return {
            "database": database, "schema": "public", "name": self.name, "relation": self.relation,
            "seq_scans": 0, "seq_rows": 0, "index_scans": int(self.changed + self.gone),
            "inserted": int(self.new), "updated": int(self.changed),
            "hot_updated": int(self.changed * self.hot), "deleted": int(self.gone),
            "vacuums": 0, "autovacuums": self.autovacuums, "analyzes": self.autovacuums,
            "toast_inserted": int(self.changed * self.chunks) if self.chunks else None,
            "toast_deleted": int(self.changed * self.chunks) if self.chunks else None,
            "live": int(self.live), "dead": int(self.dead), "pages": pages,
            "index_pages": int(pages * _INDEXES),
            "toast_pages": int(toast) if self.chunks else None,
            "toast_dead": int(self.toast_dead) if self.chunks else None,
            "age": 40_000_000,
        }  # fmt: skip

    def progress(self, database: str) -> dict[str, Any]:
        """Return the row of the source `progress` for the running vacuum."""
        return {
            "pid": 30_000 + self.relation % 100 * 100 + self.vacuums_begun, "command": "VACUUM",
            "database": database, "relation": self.relation, "phase": "vacuuming heap",
            "done": int(self.pages), "total": int(self.pages),
        }  # fmt: skip

    def bloat(self, database: str) -> dict[str, Any]:
        """Return its row of the source `bloat`."""
        toast = self._toast
        return {
            "database": database, "kind": "table", "schema": "public", "name": self.name,
            "relation": self.relation, "bytes": int(self.pages) * PAGE,
            "bloat": int(self.pages - self.live * self.row / PAGE) * PAGE,
            "toast_bytes": int(toast) * PAGE if self.chunks else None,
            "toast_bloat": int(toast - self.chunks * self.live / 4) * PAGE
            if self.chunks else None,
        }  # fmt: skip

    def index_bloat(self, database: str) -> dict[str, Any]:
        """Return the bloat of its primary key, sized for the most rows there ever were at once."""
        size = int(self.pages * _INDEXES)
        return {
            "database": database, "kind": "index", "schema": "public",
            "name": f"{self.name}_pkey", "relation": self.relation + 100,
            "table_name": self.name, "bytes": size * PAGE,
            "bloat": int(size - self.live * self.row / PAGE * _INDEXES) * PAGE,
        }  # fmt: skip

    @property
    def _toast(self) -> float:
        return self.toast_pages or self.chunks * self.live / 4


def tables() -> tuple[Table, ...]:
    """The tables, as they are when the example begins."""
    return (
        Table(name="orders", relation=16_401, live=52e6, row=160, inserted=25, updated=8, hot=0.6),
        Table(name="order_items", relation=16_402, live=190e6, row=90, inserted=90),
        Table(name="stock", relation=16_403, live=180e3, row=80, updated=40, hot=0.9),
        Table(name="documents", relation=16_404, live=1.6e6, row=300, updated=30, chunks=5),
        Table(name="events", relation=16_405, live=6e6, row=420, inserted=150, deleted=150),
        Table(name="products", relation=16_406, live=180e3, row=900, updated=0.4, hot=0.2),
        Table(name="shipments", relation=16_407, live=50e6, row=120, inserted=24, updated=30,
              hot=0.4),
    )  # fmt: skip
