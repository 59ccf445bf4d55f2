"""Which server answers: one SELECT list that every probe includes.

A new primary differs from the old one in its start time, address and timeline. Not every role may
query all of that, so whatever is refused once is left out from then on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, LiteralString

from mrtuner.postgres.connect import ended_session
from mrtuner.rehearsal.observation import ServerIdentity

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

_ALWAYS: Final[LiteralString] = (
    "pg_catalog.pg_postmaster_start_time(), pg_catalog.pg_is_in_recovery(),"
    " pg_catalog.host(pg_catalog.inet_server_addr()) || ':' || pg_catalog.inet_server_port()"
)
#: pg_control_checkpoint() would show the timeline too, but only after the checkpoint that follows
#: a promotion. Source: xlogfuncs.c, pg_walfile_name.
_TIMELINE: Final[LiteralString] = (
    "CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN ('x' || pg_catalog.left("
    "pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8))::bit(32)::int END"
)
_SYSTEM: Final[LiteralString] = "(SELECT system_identifier FROM pg_catalog.pg_control_system())"


@dataclass(frozen=True, slots=True)
class Who:
    """What may be queried; `columns` is a SELECT list, or what follows RETURNING."""

    timeline: bool = False
    system: bool = False

    @property
    def columns(self) -> LiteralString:
        """Five columns, as `server` expects them."""
        timeline: LiteralString = _TIMELINE if self.timeline else "NULL"
        system: LiteralString = _SYSTEM if self.system else "NULL"
        return f"{_ALWAYS}, {timeline}, {system}"


def permitted(session: Connection) -> Who:
    """Return what this role may query here."""
    return Who(timeline=_answers(session, _TIMELINE), system=_answers(session, _SYSTEM))


def _answers(session: Connection, column: LiteralString) -> bool:
    import psycopg

    try:
        session.execute(f"SELECT {column}")
    except psycopg.Error as error:
        if ended_session(error):
            raise
        return False
    return True


def server(row: tuple[Any, ...] | None, address: str | None) -> ServerIdentity:
    """Convert a row of `Who.columns`; `address` is the one the client connected to."""
    started, standby, own, timeline, system = (row or (datetime.min, None, None, None, None))[:5]
    return ServerIdentity(
        started=started,
        standby=bool(standby),
        address=address,
        own=own,
        timeline=timeline,
        system=system,
    )
