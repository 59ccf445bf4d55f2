"""What a server's caches, JIT compilation, temporary files and archiving did, for `tune`.

A server counts since its last reset; here the counters cover the period. What was not sampled is
reported as missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from mrtuner.facts import Missing
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod
from mrtuner.history.reading import History
from mrtuner.postgres.model import INDEX_BUILDS, Archiver, JitWork, RoleSpills, Setting, Slru
from mrtuner.units import PAGE, Bytes

_OFF: Final = "off"
_HINT: Final = "mrtuner tune DSN --history DIR asks the server."


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The counters of a period; None or empty where nothing was counted."""

    slrus: tuple[Slru, ...]
    jit: JitWork | None
    role_spills: tuple[RoleSpills, ...]
    archiver: Archiver | None
    missing: tuple[Missing, ...]


def counters(
    history: History, about: HistoryPeriod, settings: Mapping[str, Setting], *, clients: int
) -> Counters:
    """Return what was counted in a period of a server with these settings and open sessions."""
    sampled = _sampled(history, about)
    block = _block(settings)
    statements = "statements" in sampled
    archiving = _setting(settings, "archive_mode")
    return Counters(
        slrus=tuple(_slrus(history, about)) if "slru" in sampled else (),
        jit=_jit(history, about) if statements else None,
        role_spills=tuple(_role_spills(history, about, block, clients)) if statements else (),
        archiver=(
            _archiver(history, about)
            if "archiver" in sampled and archiving not in {None, _OFF}
            else None
        ),
        missing=tuple(_missing(sampled, archiving)),
    )


def _sampled(history: History, about: HistoryPeriod) -> set[str]:
    rows = history.rows(
        f"SELECT DISTINCT source FROM samples_by_hour WHERE {IN_PERIOD}", about.parameters
    )
    return {row["source"] for row in rows}


def _missing(sampled: set[str], archiving: str | None) -> Iterator[Missing]:
    if "slru" not in sampled:
        yield Missing("slrus", "pg_stat_slru was not recorded", hint=_HINT)
    if "statements" not in sampled:
        why = "pg_stat_statements was not recorded"
        yield from (Missing(name, why, hint=_HINT) for name in ("jit", "role_spills"))
    if archiving is None or (archiving != _OFF and "archiver" not in sampled):
        yield Missing("archiver", "whether archiving works was not recorded", hint=_HINT)


def _setting(settings: Mapping[str, Setting], name: str) -> str | None:
    found = settings.get(name)
    return None if found is None else found.setting


def _block(settings: Mapping[str, Setting]) -> int:
    text = _setting(settings, "block_size") or ""
    return int(text) if text.isdecimal() else PAGE


def _slrus(history: History, about: HistoryPeriod) -> Iterator[Slru]:
    """Yield the counters of each cache in the sample with most reads per second."""
    busiest = ", ".join(
        f"arg_max({name}, reads / seconds) AS {name}" for name in ("hits", "reads", "seconds")
    )
    rows = history.rows(
        f"""SELECT name, {busiest} FROM slru
            WHERE {IN_PERIOD} AND seconds > 0 AND reads IS NOT NULL AND name <> 'other'
            GROUP BY name ORDER BY name""",
        about.parameters, inside=True,
    )  # fmt: skip
    yield from (Slru(**row) for row in rows)


def _jit(history: History, about: HistoryPeriod) -> JitWork | None:
    """Return the work of JIT-compiled statements; PostgreSQL 15 and later count it."""
    row = history.row(
        f"""SELECT sum(calls) AS calls, sum(exec_ms) / 1000 AS running,
                   sum(jit_ms) / 1000 AS compiling
            FROM (SELECT query_id, sum(calls) AS calls, sum(exec_ms) AS exec_ms,
                         sum(jit_ms) AS jit_ms
                  FROM statements_by_hour WHERE {IN_PERIOD} GROUP BY query_id) AS s
            WHERE jit_ms > 0""",
        about.parameters,
    )
    if not row["calls"]:
        return None
    return JitWork(calls=int(row["calls"]), running=row["running"], compiling=row["compiling"])


def _role_spills(
    history: History, about: HistoryPeriod, block: int, clients: int
) -> Iterator[RoleSpills]:
    """Yield the roles whose statements wrote temporary files, most first.

    Sessions are not recorded by role, so each role is assumed to have all of them. Index builds are
    left out.
    """
    rows = history.rows(
        f"""SELECT role, count(*) AS statements, sum(calls) AS calls, sum(blocks) AS blocks,
                   max(blocks / calls) AS largest
            FROM (SELECT role, query_id, sum(calls) AS calls, sum(temp_blocks_written) AS blocks
                  FROM statements_by_hour WHERE {IN_PERIOD} AND role IS NOT NULL
                  GROUP BY role, query_id) AS s
            LEFT JOIN statement_texts AS t ON t.query_id = s.query_id
            WHERE blocks > 0 AND calls > 0
                  AND NOT coalesce(regexp_matches(t.text, $maintenance, 'i'), false)
            GROUP BY role ORDER BY blocks DESC, role""",
        about.parameters | {"maintenance": INDEX_BUILDS},
    )
    for row in rows:
        yield RoleSpills(
            role=row["role"], statements=row["statements"], calls=int(row["calls"]),
            size=Bytes(int(row["blocks"]) * block), largest=Bytes(int(row["largest"]) * block),
            sessions=clients,
        )  # fmt: skip


def _archiver(history: History, about: HistoryPeriod) -> Archiver:
    """Return how often archiving failed, and whether it did last; its lag is not recorded."""
    row = history.row(
        f"""SELECT sum(archived) AS archived, sum(failed) AS failed,
                   max(CASE WHEN archived > 0 THEN time END) AS last_archived,
                   max(CASE WHEN failed > 0 THEN time END) AS last_failed
            FROM archiver WHERE {IN_PERIOD}""",
        about.parameters, inside=True,
    )  # fmt: skip
    archived, failed = row["last_archived"], row["last_failed"]
    return Archiver(
        archived=int(row["archived"] or 0), failed=int(row["failed"] or 0), behind=None,
        failing=failed is not None and (archived is None or failed > archived),
    )  # fmt: skip
