"""Tables, rates and pictures for the tests, plain unless said otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mrtuner.postgres.platform import Clues, platform
from mrtuner.vacuum.model import Moment, Picture, Rates, Sample, Table, ToastTable

#: Server settings as pg_settings has them, at their defaults.
SETTINGS = {
    "autovacuum": "on",
    "autovacuum_vacuum_scale_factor": "0.2",
    "autovacuum_vacuum_threshold": "50",
    "autovacuum_vacuum_insert_scale_factor": "0.2",
    "autovacuum_vacuum_insert_threshold": "1000",
    "autovacuum_vacuum_cost_limit": "-1",
    "autovacuum_vacuum_cost_delay": "2",
    "autovacuum_naptime": "60",
    "autovacuum_max_workers": "3",
    "autovacuum_freeze_max_age": "200000000",
    "autovacuum_multixact_freeze_max_age": "400000000",
    "vacuum_cost_limit": "200",
    "vacuum_cost_delay": "0",
    "vacuum_cost_page_hit": "1",
    "vacuum_cost_page_miss": "2",
    "vacuum_cost_page_dirty": "20",
}

_TABLE = Table(
    oid=1,
    schema="public",
    name="t",
    parent=None,
    pages=10_000,
    visible_pages=0,
    index_pages=1_000,
    indexes=1,
    options={},
    age=1_000,
    multixact_age=0,
    rows=1_000_000,
    live=1_000_000,
    dead=0,
    inserted=0,
    updated=0,
    hot_updated=0,
    newpage_updated=None,
    deleted=0,
    vacuums=0,
    vacuum_seconds=None,
    toast=None,
    relfilenode=0,
)
_TOAST = ToastTable(
    name="pg_toast_1",
    pages=50_000,
    options={},
    live=200_000,
    dead=0,
    inserted=0,
    deleted=0,
    age=1_000,
)
_RATES = Rates(
    seconds=1_000.0,
    events=100_000,
    inserts=0.0,
    updates=0.0,
    deletes=0.0,
    hot_share=None,
    newpage_share=None,
    vacuums=0,
    vacuum_seconds=None,
    toast_inserts=0.0,
    toast_deletes=0.0,
    gaps=0,
    vanished=0.0,
    truncated=0,
)
_MOMENT = Moment(
    at=1_000.0,
    reset_at=0.0,
    began_at=0.0,
    transactions=0,
    next_xid=1_000,
    oldest_multixact="1",
    multixact_age=0,
)


def table(**given: Any) -> Table:
    """A table of a million rows in 10,000 pages with an index of 1,000."""
    return replace(_TABLE, **given)


def toast(**given: Any) -> ToastTable:
    """A TOAST table of 200,000 chunks."""
    return replace(_TOAST, **given)


def rates(**given: Any) -> Rates:
    """Rates of a table to which nothing happened in 1,000 s."""
    return replace(_RATES, **given)


def moment(**given: Any) -> Moment:
    """1,000 s after the last reset."""
    return replace(_MOMENT, **given)


def sample(at: float, *tables: Table, **given: Any) -> Sample:
    """Tables at a time [s]."""
    return Sample(moment=moment(at=at, **given), tables=tables)


def picture(*samples: Sample, **given: Any) -> Picture:
    """A database of PostgreSQL 17 at default settings."""
    plain: dict[str, Any] = {
        "version_num": 170000,
        "database": "app",
        "settings": SETTINGS,
        "databases": (("app", 1_000, 0),),
        "blockers": (),
        "chunk": 1996,
        "missing": (),
        "platform": platform(Clues(settings={})),
    }
    return Picture(samples=samples, **{**plain, **given})
