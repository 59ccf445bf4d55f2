"""Measure, for a few seconds, how many logins per second a database accepts from here."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Final

from mrtuner.errors import MrTunerError
from mrtuner.postgres.connect import connect

#: Long enough for hundreds of logins, short enough not to disturb a server in use [s].
SECONDS: Final = 2.0
#: Most sessions open at the same time: applications reconnect in parallel, too.
_CLIENTS: Final = 4


def measured(dsn: str) -> float:
    """Return logins a second; each is a new connection, authenticated and closed at once.

    Raises ConnectError if the connection is not to the server itself, since a pooler's logins are
    not the database's; MrTunerError if a login fails later.
    """
    connect(dsn).close()
    began = monotonic()
    with ThreadPoolExecutor(_CLIENTS) as clients:
        counts = list(clients.map(_log_in, [dsn] * _CLIENTS, [began + SECONDS] * _CLIENTS))
    return sum(counts) / (monotonic() - began)


def _log_in(dsn: str, until: float) -> int:
    import psycopg

    count = 0
    while monotonic() < until:
        try:
            psycopg.connect(dsn, connect_timeout=10).close()
        except psycopg.Error as error:
            raise MrTunerError(
                f"a login failed during the measurement: {str(error).splitlines()[0]}",
                "Give --logins, or measure when there are free connections.",
            ) from None
        count += 1
    return count
