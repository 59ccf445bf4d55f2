"""The busiest minutes of a server's sessions, by application: for `pods plan` and `pods check`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from mrtuner.errors import UsageError
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod
from mrtuner.history.reading import History, Rows
from mrtuner.history.recorded.machine import facts

#: Length of a step [s]: the same as when a Prometheus server is queried for the busiest minutes.
STEP: Final = 300
#: Names of Puma's and unicorn's workers differ in their numbers: without them they are one
#: application, as in sessions_by_application.sql.
_NUMBERED: Final = r"^(puma: cluster worker|unicorn\w* worker)( \d+: \d+|\[\d+\])"
_APPLICATION: Final = f"regexp_replace(coalesce(application, ''), '{_NUMBERED}', '\\1')"
#: A step is left out if less than this share of it was sampled.
_COVERED: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationLoad:
    """Active sessions of one application, on average over the step."""

    application: str
    role: str
    database: str
    active: float  # running a statement
    in_transaction: float  # idle in a transaction for five seconds or longer


@dataclass(frozen=True, slots=True, kw_only=True)
class BusiestSessions:
    """What a history knows of a server's sessions; None where it was not recorded."""

    begin: datetime  # of the busiest step, UTC
    applications: tuple[ApplicationLoad, ...]  # the busiest first
    max_connections: int | None
    cpus: int | None  # that the server can use


def busiest_sessions(
    history: History, about: HistoryPeriod, application: str | None = None
) -> BusiestSessions:
    """Return the five minutes with the most active sessions, of one application or of all.

    Raises:
        UsageError: no client was active.
    """
    rows = _by_step(history, about) if history.has("sessions") else []
    names = sorted({str(row["application"]) for row in rows})
    chosen = [row for row in rows if application in {None, row["application"]}]
    if not chosen:
        raise UsageError(
            f"no session of {application or 'a client'} was active in the history of "
            f"{about.instance}",
            f"Applications in it: {', '.join(name or 'one without a name' for name in names)}."
            if names
            else "Record it under its load.",
        )
    sums: dict[int, float] = {}
    for row in chosen:
        sums[row["step"]] = sums.get(row["step"], 0.0) + row["active"]
    busiest = max(sums, key=lambda step: (sums[step], -step))
    cpus = facts(history, about.instance).get("cpus")
    return BusiestSessions(
        begin=datetime.fromtimestamp(busiest * STEP, UTC),
        applications=tuple(
            ApplicationLoad(**{name: row[name] for name in ApplicationLoad.__dataclass_fields__})
            for row in sorted(chosen, key=lambda row: (-row["active"], row["application"]))
            if row["step"] == busiest
        ),
        max_connections=most_clients(history, about)[2],
        cpus=int(float(cpus.value)) if cpus is not None else None,
    )


def _by_step(history: History, about: HistoryPeriod) -> Rows:
    """Return averages over the samples of each step; idle sessions are not recorded."""
    step = f"epoch_us(time) // 1000000 // {STEP}"
    return history.rows(
        f"""SELECT s.step, s.application, s.role, s.database,
                   s.active / b.beats AS active, s.in_transaction / b.beats AS in_transaction
            FROM (SELECT {step} AS step,
                         {_APPLICATION} AS application,
                         coalesce(role, '') AS role, coalesce(database, '') AS database,
                         count(*) FILTER (WHERE state NOT LIKE 'idle%') AS active,
                         count(*) FILTER (WHERE state LIKE 'idle in transaction%')
                             AS in_transaction
                  FROM sessions WHERE {IN_PERIOD}
                    AND (backend_type = 'client backend' OR backend_type IS NULL)
                  GROUP BY 1, 2, 3, 4) AS s
            JOIN (SELECT {step} AS step, count(*) AS beats, sum(seconds) AS covered FROM samples
                  WHERE {IN_PERIOD} AND source = 'sessions' GROUP BY 1) AS b ON b.step = s.step
            WHERE b.covered >= {STEP * _COVERED}""",
        about.parameters, inside=True,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MostSessions:
    """The most sessions of one application in one sample; idle ones are not recorded."""

    application: str
    role: str
    database: str
    most: int
    active: int  # of these, running a statement
    in_transaction: int  # of these, idle in a transaction for five seconds or longer


def most_by_application(history: History, about: HistoryPeriod) -> tuple[MostSessions, ...]:
    """Return each application's most sessions in one sample; none if none were recorded."""
    if not history.has("sessions"):
        return ()
    rows = history.rows(
        f"""SELECT application, role, database, max(busy) AS most,
                   arg_max(active, busy) AS active, arg_max(busy - active, busy) AS in_transaction
            FROM (SELECT time, {_APPLICATION} AS application,
                         coalesce(role, '') AS role, coalesce(database, '') AS database,
                         count(*) AS busy,
                         count(*) FILTER (WHERE state NOT LIKE 'idle%') AS active
                  FROM sessions WHERE {IN_PERIOD}
                    AND (backend_type = 'client backend' OR backend_type IS NULL)
                  GROUP BY 1, 2, 3, 4)
            GROUP BY 1, 2, 3 ORDER BY most DESC, application, role, database""",
        about.parameters, inside=True,
    )  # fmt: skip
    return tuple(MostSessions(**row) for row in rows)


def most_clients(
    history: History, about: HistoryPeriod
) -> tuple[int | None, datetime | None, int | None]:
    """Return the most sessions of clients, when that was, and max_connections."""
    if not history.has("connections"):
        return None, None, None
    row = history.row(
        f"""SELECT max(clients) AS most, arg_max(time, clients) AS at, max(maximum) AS maximum
            FROM connections WHERE {IN_PERIOD}""",
        about.parameters, inside=True,
    )  # fmt: skip
    at = row["at"]
    return row["most"], None if at is None else at.replace(tzinfo=UTC), row["maximum"]
