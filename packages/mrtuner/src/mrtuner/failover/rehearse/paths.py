"""The ways in which clients reach a server: what is there, what is allowed, what to expect.

Checked before anything starts, over one session of ours per way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, LiteralString

from mrtuner.errors import MrTunerError, UsageError
from mrtuner.failover.audit.session import between
from mrtuner.failover.predict.client import client_with
from mrtuner.failover.predict.hang_times import Prediction, Situation, predict
from mrtuner.failover.predict.kernel import local
from mrtuner.failover.predict.path import Path
from mrtuner.failover.sockets import options
from mrtuner.postgres.connect import connect, resolved, translated

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

#: The probes use psycopg, so its defaults apply where the string says nothing.
_DRIVER: Final = "psycopg"
#: Others' backend_type is NULL to a lesser role; clients have a user and a database. Since 16 some
#: connections may be reserved for roles with a grant.
_FACTS: Final[LiteralString] = """
SELECT pg_catalog.current_database(), pg_catalog.pg_is_in_recovery(),
       pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),
       pg_catalog.current_setting('max_connections')::int
       - pg_catalog.current_setting('superuser_reserved_connections')::int
       - coalesce(pg_catalog.current_setting('reserved_connections', true)::int, 0)
       - (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity
          WHERE backend_type = 'client backend'
             OR backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL)::int
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPath:
    """A connection string and what it leads to."""

    dsn: str = field(repr=False)
    place: str  # host:port/database; no user, no secret
    parameters: Mapping[str, Any] = field(repr=False)
    between: str | None  # what answers in the server's place
    standby: bool
    may_create: bool  # whether it may create a schema for the ledger
    free: int  # connections that the server would still accept
    predictions: tuple[Prediction, ...]  # for this very client, if the server vanishes
    unpredicted: str | None = None  # why there are none

    def require(self, *, writes: bool, sessions: int) -> None:
        """Raise UsageError for a standby or too many sessions, MrTunerError if it may not write."""
        if writes and self.standby:
            raise UsageError(
                f"{self.place} is a standby, so nothing can be written there",
                "Give the primary's address, or --no-write to rehearse with reads only.",
            )
        if writes and not self.may_create:
            raise MrTunerError(
                f"this role may not create a schema for the ledger of writes in {self.place}",
                "GRANT CREATE ON DATABASE to it, or add --no-write to rehearse with reads only.",
            )
        if sessions > self.free and not self.between:
            raise UsageError(
                f"the probes may need {sessions} sessions, but {self.place} has {self.free} free",
                "Give a smaller number with --connections.",
            )


def look(dsn: str) -> ClientPath:
    """Connect and query. UsageError for an invalid string, ConnectError without a session.

    A login alone proves nothing, since a pooler accepts it even if the database is dead; a query
    does.
    """
    parameters = {name: each.value for name, each in resolved(dsn).items()}
    with connect(dsn, through_pooler=True) as session, translated():
        row = session.execute(_FACTS).fetchone()
        database, standby, may_create, free = row or ("", False, False, 0)
        predictions, unpredicted = _expected(dsn, session)
        return ClientPath(
            dsn=dsn,
            place=f"{session.info.host or 'local socket'}:{session.info.port}/{database}",
            parameters=parameters,
            between=between(session),
            standby=standby,
            may_create=may_create,
            free=free,
            predictions=predictions,
            unpredicted=unpredicted,
        )


def _expected(dsn: str, session: Connection) -> tuple[tuple[Prediction, ...], str | None]:
    try:
        client = client_with(_DRIVER, dsn)
        live = options(session.fileno())
        path = Path(rtt=live.rtt, rto=live.rto, same=False)
        return predict(Situation(kernel=local(), client=client, path=path)), None
    except MrTunerError as error:  # a Unix socket; another system than Linux
        return (), error.message
