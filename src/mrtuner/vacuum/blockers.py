"""What keeps dead rows from being removed: whose snapshot is old, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from mrtuner.vacuum.model import Blocker

Row = dict[str, Any]

#: A session or prepared transaction older than this is worth naming [s].
LONG: Final = 300.0
#: A horizon further back than this holds back rows worth the trouble [transactions].
FAR: Final = 100_000


def sessions(rows: Iterable[Row], database: str) -> Iterator[Blocker]:
    """Long transactions and sessions idle in one; `seconds` is None where it may not be seen."""
    for row in rows:
        idle = (row["state"] or "").startswith("idle in transaction")
        what = "session idle in transaction" if idle else "long transaction"
        if not _matters(row["seconds"], row["age"]):
            continue
        yield Blocker(
            what=what,
            name=_session(row, database),
            age=row["age"],
            seconds=row["seconds"],
            remedy=_IDLE if idle else _LONG,
            sql=f"SELECT pg_terminate_backend({row['pid']});",
            serious=True,
        )


def slots(rows: Iterable[Row]) -> Iterator[Blocker]:
    """Replication slots that hold a horizon; catalog_xmin holds back the catalogs only."""
    for row in rows:
        age = max(row["age"] or 0, row["catalog_age"] or 0)
        far = age >= FAR
        if row["active"] and not far:
            continue
        kind = f"{row['type']} replication slot" + ("" if row["active"] else ", inactive")
        scope = "" if row["age"] is not None else " (system catalogs only)"
        yield Blocker(
            what=kind,
            name=f"{row['name']}{scope}",
            age=age,
            seconds=None,
            remedy=_SLOT_ACTIVE if row["active"] else _SLOT,
            sql=None if row["active"] else _drop_slot(row["name"]),
            serious=far,
        )


def prepared(rows: Iterable[Row]) -> Iterator[Blocker]:
    """Prepared transactions: nobody's session, and they survive a restart."""
    for row in rows:
        if _matters(row["seconds"], row["age"]):
            yield Blocker(
                what="prepared transaction",
                name=f"{row['gid']} of {row['owner']} in {row['database']}",
                age=row["age"],
                seconds=row["seconds"],
                remedy=_PREPARED,
                sql=f"ROLLBACK PREPARED {_quoted(row['gid'])};",
                serious=True,
            )


def feedback(rows: Iterable[Row]) -> Iterator[Blocker]:
    """Standbys whose hot_standby_feedback reports a far horizon."""
    for row in rows:
        if (row["age"] or 0) >= FAR:
            yield Blocker(
                what="standby feedback",
                name=row["application"] or f"process {row['pid']}",
                age=row["age"],
                seconds=None,
                remedy=_FEEDBACK,
                sql=None,
                serious=True,
            )


_IDLE: Final = (
    "End the session, and set idle_in_transaction_session_timeout; the application forgets to "
    "commit."
)
_LONG: Final = (
    "Let it end or end it; take long reports to a standby or split them (17 and later have "
    "transaction_timeout)."
)
_SLOT: Final = (
    "Start its consumer, or drop the slot if nobody will come back for it; "
    "max_slot_wal_keep_size bounds the WAL it keeps, not the rows."
)
_SLOT_ACTIVE: Final = "Its consumer is behind: look at its lag and at what it waits for."
_PREPARED: Final = (
    "Ask the transaction manager; then COMMIT PREPARED or ROLLBACK PREPARED in its database."
)
_FEEDBACK: Final = (
    "Find the long query on the standby and end it, or set hot_standby_feedback = off there and "
    "accept cancelled queries."
)


def _matters(seconds: float | None, age: int | None) -> bool:
    return (seconds or 0) >= LONG or (age or 0) >= FAR


def _session(row: Row, database: str) -> str:
    who = row["application"] or row["role"] or row["backend_type"]
    elsewhere = "" if row["database"] in {None, database} else f" in database {row['database']}"
    return f"process {row['pid']} ({who}){elsewhere}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _drop_slot(name: str) -> str:
    return f"SELECT pg_drop_replication_slot({_quoted(name)});"
