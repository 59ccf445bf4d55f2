"""pg_stat_activity, sampled many times: how many sessions each application has, and how busy.

By Little's law, a request's time in the database is the average number of sessions that run a
statement, divided by requests per second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import BadValue
from mrtuner.facts import Fact, Missing
from mrtuner.wording import enumerated
from mrtuner_pods.observed.model import Login, Observed, OpenSessions, SessionsSeen, in_database

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

#: How long to sample, and the time between two samples [s].
WATCHED, _LOOK = 10.0, 0.1
#: This many sessions of one application from one address suggest a pooler, or one machine.
_ONE_ADDRESS: Final = 10
_QUERY: Final = "sessions_by_application"


def sessions_now(connection: Connection) -> tuple[tuple[OpenSessions, ...], tuple[str, ...]]:
    """Return the sessions of each application at this moment, and reasons to doubt them."""
    looks = _Looks()
    looks.add(_read(connection))
    return looks.rows(), tuple(looks.doubts())


def watched(
    dsn: str, *, seconds: float = WATCHED, rate: float | None = None,
    application: str | None = None, sleep: Callable[[float], object] = time.sleep,
) -> Observed:  # fmt: skip
    """Return what the sessions of a server did for some seconds, by application.

    With a `rate` of requests [1/s], a request's time in the database is included; `application` is
    the one that serves them, and is then needed if there are several.

    Raises ConnectError as `connect` does, BadValue if the application has no session, or is needed
    but not given.
    """
    from mrtuner.postgres.connect import connect, translated

    with connect(dsn) as connection, translated():
        looks = _watch(connection, seconds, sleep)
        most = int(connection.execute("SHOW max_connections").fetchone()[0])  # type: ignore[index]
    rows = looks.rows()
    chosen = _chosen(rows, application, required=rate is not None)
    busy = sum(one.active for one in chosen)
    named = enumerated(sorted({one.application or "unnamed" for one in chosen}))
    what = f"{busy:.3g} sessions of {named} run a statement"
    return Observed(
        database_time=in_database(
            busy, rate if busy else None, f"pg_stat_activity, {looks.count} looks: {what}"
        ),
        max_connections=Fact(most, "max_connections of the server"),
        sessions=rows,
        warnings=tuple(looks.doubts()),
    )


def seen(dsn: str, *, seconds: float = WATCHED) -> SessionsSeen:
    """Return the most sessions that each application had at one moment of some seconds.

    Raises ConnectError as `connect` does.
    """
    from mrtuner.postgres.connect import address, connect, translated

    with connect(dsn) as connection, translated():
        looks = _watch(connection, seconds, time.sleep)
        role, host = connection.info.user, connection.info.host or None
    why = (
        f"{role} does not see what {looks.hidden} sessions of other roles are, nor their addresses"
    )
    return SessionsSeen(
        source=f"{address(dsn)}, watched for {seconds:g} s",
        sessions=looks.rows(),
        host=host,
        samples=tuple(looks.samples),
        missing=(
            Missing("sessions of other roles", why, hint=f"GRANT pg_monitor TO {role}"),
        ) if looks.hidden else (),
    )  # fmt: skip


def _watch(connection: Connection, seconds: float, sleep: Callable[[float], object]) -> _Looks:
    looks, end = _Looks(), time.monotonic() + seconds
    while True:
        looks.add(_read(connection))
        if (left := end - time.monotonic()) <= 0:
            return looks
        sleep(min(_LOOK, left))


def _read(connection: Connection) -> list[dict[str, Any]]:
    from mrtuner.postgres.named_queries import Reader

    return Reader(connection, connection.info.server_version).rows(_QUERY)


def _chosen(
    rows: Sequence[OpenSessions], application: str | None, *, required: bool
) -> list[OpenSessions]:
    names = sorted({one.application for one in rows})
    shown = enumerated(name or "an unnamed one" for name in names)
    if application is not None:
        chosen = [one for one in rows if one.application == application]
        if not chosen:
            raise BadValue(
                f"no session has the application_name {application!r}",
                f"There are: {shown}." if names else "Measure it under its load.",
            )
        return chosen
    if required and len(names) > 1:
        raise BadValue(
            f"sessions of several applications are open: {shown}",
            "Name the one that serves these requests: --application NAME.",
        )
    return list(rows)


@dataclass(slots=True)
class _Looks:
    """Sums over all samples."""

    count: int = 0
    _sums: dict[Login, dict[str, int]] = field(default_factory=dict)
    _addresses: dict[Login, int] = field(default_factory=dict)
    samples: list[dict[Login, int]] = field(default_factory=list)
    hidden: int = 0  # sessions whose kind, state and address are not shown

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.count += 1
        self.hidden = max(self.hidden, sum(row["hidden"] for row in rows))
        self.samples.append({})
        for row in rows:
            key = (row["application"], row["role"] or "", row["database"] or "")
            sums = self._sums.setdefault(key, {"sessions": 0, "active": 0, "in_transaction": 0})
            for name in sums:
                sums[name] += row[name]
            self.samples[-1][key] = row["sessions"]
            most = max(self._addresses.get(key, 0), row["addresses"])
            self._addresses[key] = most

    def rows(self) -> tuple[OpenSessions, ...]:
        """Return averages, the application with the most sessions first."""
        found = [
            OpenSessions(
                application=key[0], role=key[1], database=key[2],
                clients=self._addresses[key] or None,
                most=max(sample.get(key, 0) for sample in self.samples),
                **{name: number / self.count for name, number in sums.items()},
            )
            for key, sums in self._sums.items()
        ]  # fmt: skip
        return tuple(sorted(found, key=lambda one: (-one.sessions, one.application, one.role)))

    def doubts(self) -> Iterator[str]:
        if self.hidden:
            yield (
                f"{self.hidden} sessions of other roles are hidden: whether they run a statement "
                "is not known (GRANT pg_monitor to the role used here)"
            )
        for one in self.rows():
            if one.clients == 1 and one.sessions >= _ONE_ADDRESS:
                named = one.application or "an unnamed application"
                yield (
                    f"all {one.sessions:.0f} sessions of {named} come from one address: a pooler "
                    "hides the pods behind it, or it is one machine; query PgBouncer with "
                    "--pgbouncer"
                )
