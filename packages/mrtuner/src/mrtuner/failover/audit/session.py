"""Our own session, to see what a connection string and its server really put into force."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, LiteralString

from mrtuner.failover.audit.connections import Connection
from mrtuner.failover.predict.client import refuse_local
from mrtuner.failover.sockets import Options, options
from mrtuner.postgres.connect import connect, resolved, translated
from mrtuner.postgres.local import own_port

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection as Session

_SETTINGS: Final[LiteralString] = (
    "SELECT name, setting FROM pg_catalog.pg_settings WHERE name = ANY (%s)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One connection, its server's settings in base units, and what is in between."""

    connection: Connection
    settings: Mapping[str, str]
    between: str | None


def met(dsn: str) -> tuple[Options, str | None]:
    """Return the options of a connection of ours, and what answers in the server's place."""
    _refuse_local(dsn)
    with connect(dsn, through_pooler=True) as session, translated():
        return options(session.fileno()), between(session)


def look(dsn: str) -> Seen:
    """Connect and query. UsageError for a Unix socket; ConnectError if there is no session.

    A login alone proves nothing, since a pooler accepts it even if the database is dead; the
    server itself has to answer these queries.
    """
    from mrtuner.failover.audit.check import SERVER

    _refuse_local(dsn)
    with connect(dsn, through_pooler=True) as session, translated():
        rows = session.execute(_SETTINGS, [list(SERVER)]).fetchall()
        return Seen(
            connection=Connection(
                local="this session",
                peer=f"{session.info.host}:{session.info.port}",
                process="mrtuner",
                pid=os.getpid(),
                options=options(session.fileno()),
            ),
            settings={str(name): str(setting) for name, setting in rows},
            between=between(session),
        )


def _refuse_local(dsn: str) -> None:
    refuse_local({name: each.value for name, each in resolved(dsn).items()})


def between(session: Session) -> str | None:
    """What answers in the server's place, or None.

    A server reports its backend's process id at login; a pooler has to make one up. A proxy
    connects to the server from a port that is not ours; so may address translation.
    """
    row = session.execute(
        "SELECT pg_catalog.pg_backend_pid(), pg_catalog.inet_client_port()"
    ).fetchone()
    pid, port = row or (None, None)
    if pid != session.info.backend_pid:
        return "a pooler"
    through = port is not None and port != own_port(session)
    return "a proxy or address translation" if through else None
