"""What a history of `mrtuner record` says of a load."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mrtuner.errors import BadValue
from mrtuner.facts import Fact, Missing
from mrtuner.wording import enumerated
from mrtuner_pods.observed.model import Observed, OpenSessions, SessionsSeen, in_database


def of_sessions(
    *, begin: datetime, applications: Sequence[dict[str, Any]], max_connections: int | None,
    cpus: int | None, rate: float | None, application: str | None, where: str, **_: Any,
) -> Observed:  # fmt: skip
    """Return the load in a server's busiest minutes, from the fields of `history.BusiestSessions`.

    With a `rate` of requests [1/s] in those minutes, a request's time in the database is included.

    Raises BadValue if several applications were active and none is named.
    """
    when = f"{where}, the 5 min from {begin:%Y-%m-%d %H:%M} UTC"
    names = sorted({one["application"] for one in applications if one["active"]})
    if rate is not None and application is None and len(names) > 1:
        raise BadValue(
            f"{where} has sessions of several applications: "
            f"{enumerated(name or 'one without a name' for name in names)}",
            "Name the one that serves these requests: --application NAME.",
        )
    busy = sum(one["active"] for one in applications)
    most = None if max_connections is None else Fact(max_connections, f"max_connections, {where}")
    return Observed(
        database_time=in_database(
            busy, rate if busy else None, f"{when}: {busy:.3g} sessions running a statement"
        ),
        database_cpus=None if cpus is None else Fact(cpus, f"CPUs of the server, {where}"),
        max_connections=most,
        sessions=tuple(
            OpenSessions(
                application=one["application"], role=one["role"], database=one["database"],
                sessions=one["active"] + one["in_transaction"], active=one["active"],
                in_transaction=one["in_transaction"], clients=None,
            )
            for one in applications
        ),
    )  # fmt: skip


def most_seen(applications: Sequence[dict[str, Any]], where: str) -> SessionsSeen:
    """Return the most sessions of each application, from `history.most_by_application`.

    A history has only those that ran a statement or were in a transaction.
    """
    why = "the history has no sessions: the role that recorded could not see them, or none was busy"
    return SessionsSeen(
        source=where,
        idle=False,
        sessions=tuple(
            OpenSessions(
                application=one["application"], role=one["role"], database=one["database"],
                sessions=one["most"], active=one["active"], in_transaction=one["in_transaction"],
                clients=None, most=one["most"],
            )
            for one in applications
        ),
        missing=() if applications else (
            Missing("sessions by application", why, hint="record with a role in pg_monitor"),
        ),
    )  # fmt: skip
