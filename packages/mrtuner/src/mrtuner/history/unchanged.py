"""Answers that stay valid while a source has the same rows, kept for the next opening."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from mrtuner.history.store import layout
from mrtuner.history.store.layout import MICRO

if TYPE_CHECKING:
    from mrtuner.history.reading import History

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class RowsOf:
    """Which rows a source has.

    Rows leave SQLite only for a file, and only then can SQLite reuse the number of a row.
    """

    files: Sequence[int]  # their numbers
    newest: int  # the number of the newest row that is in no file


def rows_of(history: History, source: str) -> RowsOf:
    """Return which rows a source has now."""

    def found() -> RowsOf:
        files = tuple(file.number for file in history.files if file.view == source)
        return RowsOf(files, _in_sqlite(history, source, "max(rowid)") or 0)

    return history.once(("rows of", source), found)


def while_same(
    history: History, source: str, key: Any, ask: Callable[[], Answer], *,
    until: datetime | None = None,
) -> Answer:  # fmt: skip
    """Return the answer of `ask`, which is called again when the source has other rows.

    For values that are stored when they change, and that every screen needs.

    Args:
        history: The store.
        source: The source whose rows `ask` reads.
        key: Identifies the answer, apart from `until`.
        ask: Returns the answer.
        until: Later rows do not count. If there are none, the answer is the same for any `until`.
    """
    if until is not None and until <= _last(history, source):
        return history.once((key, until), ask)
    return history.work.keep(key, rows_of(history, source), ask)


def _last(history: History, source: str) -> datetime:
    """Return the time of a source's last row, of any instance. Reads all its rows in SQLite."""

    def found() -> datetime:
        sealed = (file.last for file in history.files if file.view == source)
        last = max(_in_sqlite(history, source, "max(time)") or 0, *sealed, 0)
        return datetime.fromtimestamp(last / MICRO, UTC).replace(tzinfo=None)

    return history.once(("last of", source), found)


def changed_since(history: History, before: Mapping[str, RowsOf], instance: str) -> int | None:
    """Return the earliest time for which sources have changed rows of an instance.

    In microseconds since 1970: 0 if its files have changed, None if there are no new rows.
    """
    times = []
    for source, then in before.items():
        now = rows_of(history, source)
        if now.files != then.files:
            return 0
        if now.newest != then.newest:
            came = "rowid > ? AND instance = ?"
            times.append(_in_sqlite(history, source, "min(time)", came, then.newest, instance))
    return min((time for time in times if time is not None), default=None)


def _in_sqlite(
    history: History, source: str, what: str, where: str = "true", *values: Any
) -> int | None:
    """Return an aggregate over the rows of a source that are in no file; None if there are none."""
    (table,) = (layout.hot_table(one) for one in history.sources if one.name == source)
    if not history.db.execute(f"PRAGMA table_info({table})").fetchone():
        return None  # of a source that is newer than the store
    found: int | None
    (found,) = history.db.execute(f"SELECT {what} FROM {table} WHERE {where}", values).fetchone()
    return found
