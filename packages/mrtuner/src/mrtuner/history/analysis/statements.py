"""What statements did in a period, and how two periods differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from mrtuner.described import Doc
from mrtuner.history.analysis.coverage import seconds_of
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, counted_in, view_for
from mrtuner.history.reading import History

#: More statements than pg_stat_statements keeps.
_EVERY: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStatement:
    """What one statement did in a period."""

    query_id: Annotated[int, Doc("identifier of pg_stat_statements")]
    text: Annotated[str | None, Doc("its text without literals; null if it was never seen")]
    database: Annotated[str | None, Doc("its database")]
    role: Annotated[str | None, Doc("its role")]
    calls: Annotated[int, Doc("executions")]
    seconds: Annotated[float, Doc("time executing")]
    rows: Annotated[int, Doc("rows returned or changed")]
    blocks_read: Annotated[int, Doc("blocks not found in shared_buffers")]
    temp_blocks: Annotated[int, Doc("blocks of temporary files, read and written")]
    wal_bytes: Annotated[int, Doc("WAL written")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStatementChange:
    """One statement in two periods."""

    text: Annotated[str | None, Doc("its text without literals")]
    before: Annotated[HistoryStatement | None, Doc("null: it did not run")]
    after: Annotated[HistoryStatement | None, Doc("null: it did not run")]
    more_load: Annotated[float, Doc("sessions that it keeps busy, after minus before")]


def statements(
    history: History, about: HistoryPeriod, top: int = _EVERY, *, query_id: int | None = None
) -> tuple[HistoryStatement, ...]:
    """The statements that took most time, or one of them; without pg_stat_statements none."""
    if not history.has("statements"):
        return ()
    counted, parameters = counted_in(
        history, "statements", about,
        "query_id, database, role, calls, exec_ms, rows, blocks_read, temp_blocks_read, "
        "temp_blocks_written, wal_bytes",
    )  # fmt: skip
    one = "" if query_id is None else f"AND c.query_id = {int(query_id)}"
    rows = history.rows(
        f"""SELECT s.query_id, t.text, s.database, s.role, s.calls, s.ms / 1000 AS seconds, s.rows,
                   s.blocks_read, s.temp_blocks, s.wal_bytes
            FROM (SELECT c.query_id, c.database, c.role, sum(c.calls) AS calls,
                         sum(c.exec_ms) AS ms, sum(c.rows) AS rows,
                         sum(c.blocks_read) AS blocks_read,
                         sum(c.temp_blocks_read) + sum(c.temp_blocks_written) AS temp_blocks,
                         sum(c.wal_bytes) AS wal_bytes
                  FROM ({counted}) AS c WHERE c.calls IS NOT NULL {one}
                  GROUP BY c.query_id, c.database, c.role
                  ORDER BY sum(c.exec_ms) DESC, c.query_id LIMIT {int(top)}) AS s
            LEFT JOIN statement_texts AS t ON t.query_id = s.query_id
            ORDER BY s.ms DESC, s.query_id""",
        parameters, inside=True,
    )  # fmt: skip
    return tuple(_statement(row) for row in rows)


def _statement(row: dict[str, Any]) -> HistoryStatement:
    whole = ("calls", "rows", "blocks_read", "temp_blocks", "wal_bytes")
    return HistoryStatement(**(row | {name: int(row[name] or 0) for name in whole}))


def recorded_text(history: History, about: HistoryPeriod, query_id: int) -> tuple[str, str] | None:
    """The text of a statement and the database in which it ran last; None if it did not run."""
    if not history.has("statements"):
        return None
    row = history.row(
        f"""SELECT any_value(t.text) AS text, arg_max(s.database, s.time) AS database
            FROM {view_for(history, "statements", about.begin)} AS s
            JOIN statement_texts AS t ON t.query_id = s.query_id
            WHERE {IN_PERIOD} AND s.query_id = $statement""",
        about.parameters | {"statement": query_id}, inside=True,
    )  # fmt: skip
    return (
        None if row["text"] is None or row["database"] is None else (row["text"], row["database"])
    )


def statement_changes(
    history: History, before: HistoryPeriod, after: HistoryPeriod, *, top: int
) -> tuple[HistoryStatementChange, ...]:
    """The statements whose load changed most.

    Statements are the same if their texts are: identifiers may differ after an upgrade.
    """
    works = [_by_text(statements(history, one)) for one in (before, after)]
    covered = [seconds_of(history, one, "statements") for one in (before, after)]
    changed = [
        HistoryStatementChange(
            text=next(side[key].text for side in works if key in side),
            before=works[0].get(key),
            after=works[1].get(key),
            more_load=_load(works[1].get(key), covered[1]) - _load(works[0].get(key), covered[0]),
        )
        for key in works[0].keys() | works[1].keys()
    ]
    changed.sort(key=lambda one: (-abs(one.more_load), one.text or ""))
    return tuple(changed[:top])


def _by_text(works: Sequence[HistoryStatement]) -> dict[tuple[Any, ...], HistoryStatement]:
    """Statements by text, database and role; those with several identifiers are added up."""
    found: dict[tuple[Any, ...], HistoryStatement] = {}
    for work in works:
        key = (work.text or work.query_id, work.database, work.role)
        found[key] = _sum(found[key], work) if key in found else work
    return found


def _sum(one: HistoryStatement, other: HistoryStatement) -> HistoryStatement:
    added = ("calls", "seconds", "rows", "blocks_read", "temp_blocks", "wal_bytes")
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in added})


def _load(work: HistoryStatement | None, covered: float | None) -> float:
    """Return the sessions that a statement keeps busy, over the seconds that were recorded."""
    return work.seconds / covered if work and covered else 0.0
