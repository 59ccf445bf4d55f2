"""What a proof reads from the server: its settings, its counters, a checkpoint."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mrtuner.errors import ConnectError
from mrtuner.postgres.local import own_port, postmaster_of
from mrtuner.postgres.secret_settings import shown

if TYPE_CHECKING:
    from typing import Any, LiteralString

    from mrtuner.postgres.connect import Connection

_STATISTICS_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals since the cluster was created, or since its statistics were reset."""

    wal: int  # bytes
    timed: int  # checkpoints started by the clock
    requested: int  # by WAL volume or by command


def one_row(session: Connection, query: LiteralString, *values: str) -> tuple[Any, ...]:
    """The first row of a query that always has one."""
    row = session.execute(query, values).fetchone()
    if row is None:
        raise ConnectError(
            "the server returned an empty result", "Connect directly to the server, then run again."
        )
    return row


def settings(session: Connection) -> dict[str, str]:
    """pg_settings as sessions begin, in base units, without secrets: records keep it."""
    rows = session.execute(
        "SELECT name, coalesce(CASE WHEN source = 'session' THEN reset_val ELSE setting END, '')"
        " FROM pg_settings"
    ).fetchall()
    return {name: shown(name, value) for name, value in rows}


def counters(session: Connection) -> Counters:
    """Read the counters. Source: pg_stat_checkpointer; before 17, pg_stat_bgwriter."""
    if session.info.server_version >= 170000:
        view: LiteralString = "SELECT num_timed, num_requested FROM pg_stat_checkpointer"
    else:
        view = "SELECT checkpoints_timed, checkpoints_req FROM pg_stat_bgwriter"
    wal = one_row(session, "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint")[0]
    return Counters(wal, *one_row(session, view))


def counted_checkpoint(session: Connection) -> None:
    """Run CHECKPOINT and wait until the statistics have it, lest the next run be charged."""
    before = counters(session).requested
    session.execute("CHECKPOINT")
    deadline = time.monotonic() + _STATISTICS_S
    while counters(session).requested == before and time.monotonic() < deadline:
        time.sleep(0.02)


def timed_checkpoint(session: Connection) -> float:
    began = time.monotonic()
    session.execute("CHECKPOINT")
    return time.monotonic() - began


def is_local(session: Connection) -> bool:
    """Whether we connect over a socket, or over TCP from the server's own address.

    So does the far end of a tunnel, but from a port that is not ours.
    """
    query: LiteralString = (
        "SELECT coalesce(inet_server_addr() = inet_client_addr(), true), inet_client_port()"
    )
    alike, port = one_row(session, query)
    if not alike or port is None or port == own_port(session):
        return bool(alike)
    return postmaster_of(session) is not None  # through a pooler or a proxy here
