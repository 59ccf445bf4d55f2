"""Storms of connections: many more sessions than usual, and sessions that were refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any, Final

from mrtuner.history.analysis.incidents.model import Incident
from mrtuner.history.analysis.incidents.samples import (
    AGAIN,
    divided,
    grown_together,
    near,
    span_of,
    usual_day,
)
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, as_sampled
from mrtuner.history.analysis.role_peaks import role_peaks
from mrtuner.history.reading import History
from mrtuner.wording import as_name, plural_was

#: A storm: twice the usual number of sessions, so many more, this share of those that may be, and
#: in two samples, since a job that works in parallel is none; or as many as may be, and so many
#: times the usual number.
_TIMES: Final = 2.0
_MORE: Final = 20
_SHARE: Final = 0.25
_CLEARLY: Final = 1.1
#: Sessions that were refused within this time of a storm were refused in it.
_APART: Final = timedelta(minutes=1)
#: Sessions are sampled at other times than their number: at the peak is this long beside it.
_BESIDE: Final = timedelta(seconds=5)


def connection_storms(history: History, about: HistoryPeriod) -> Iterator[Incident]:
    """Yield storms, and when sessions were refused; those of a storm are told with it."""
    refused = [row for run in grown_together(history, about, "log_errors", "refused")
               for row in run]  # fmt: skip
    for storm in _storms(history, about):
        own = [
            row for row in refused
            if span_of(row)[0] <= storm.end + _APART and storm.begin - _APART <= span_of(row)[1]
        ]  # fmt: skip
        refused = [row for row in refused if row not in own]
        # Each was refused at some time of its minute: a storm is sampled more often.
        yield storm if not own else replace(
            storm, kind="sessions refused", begin=min(storm.begin, span_of(own[0])[1]),
            end=max(storm.end, span_of(own[-1])[0]),
            text=f"{storm.text}; {_refused_sessions(own)}",
        )  # fmt: skip
    for rows in divided(refused, AGAIN, span_of):
        yield Incident(
            kind="sessions refused", begin=span_of(rows[0])[0], end=span_of(rows[-1])[1],
            screen="connections",
            text=f"{_refused_sessions(rows)} because there were too many",
        )  # fmt: skip


def _refused_sessions(refused: Sequence[Mapping[str, Any]]) -> str:
    number = int(sum(row["refused"] for row in refused))
    return f"{plural_was(number, 'session')} refused"


def _storms(history: History, about: HistoryPeriod) -> Iterator[Incident]:
    if not as_sampled(history, "connections", about):
        return
    rows = history.rows(
        f"SELECT time, clients, maximum, ordinary FROM connections WHERE {IN_PERIOD} ORDER BY time",
        usual_day(about).parameters, inside=True,
    )  # fmt: skip
    counted = [row for row in rows if row["clients"] is not None]
    if not counted:
        return
    often = median(row["clients"] for row in counted)

    def full(row: Mapping[str, Any]) -> bool:
        """Whether ordinary roles can open no more; the recorder's own session is not counted."""
        return bool(row["clients"] + 1 >= row["ordinary"])

    def many(row: Mapping[str, Any]) -> float:
        return float(max(_TIMES * often, often + _MORE, _SHARE * row["ordinary"]))

    high = [
        (row["time"].replace(tzinfo=UTC), row) for row in counted
        if row["clients"] >= many(row) or (full(row) and row["clients"] >= _CLEARLY * often)
    ]  # fmt: skip
    for storm in near(high, timedelta(minutes=2)):
        if storm[-1][0] < about.begin or not (storm[1:] or full(storm[0][1])):
            continue
        peak = max((row for _, row in storm), key=lambda row: row["clients"])
        most = f"{peak['maximum']:,}{', as many as ordinary roles may open' * full(peak)}"
        yield Incident(
            kind="connection storm", begin=storm[0][0], end=storm[-1][0], screen="connections",
            text=f"the number of sessions rose to {peak['clients']:,} of {most}; "
            f"usual are {often:,.0f}{_who(history, about, storm, peak, often)}",
        )  # fmt: skip


def _who(
    history: History, about: HistoryPeriod, storm: Sequence[tuple[datetime, Mapping[str, Any]]],
    peak: Mapping[str, Any], often: float,
) -> str:  # fmt: skip
    """Whose sessions most of those are that are not usual, if that was seen.

    That is who has so many more than before the storm. Idle sessions are counted by role only.
    """
    many = (peak["clients"] - often) / 2
    before = storm[0][0] - _APART
    if as_sampled(history, "sessions", about):
        usual = _at_work(history, about, before)
        for (application, role), number in _at_work(
            history, about, peak["time"].replace(tzinfo=UTC)
        ).most_common():
            if application and number - usual[application, role] >= many:
                of = f" (role {as_name(role)})" if role else ""
                return f"; {number:,} were of {as_name(application)}{of}"
    around = replace(about, begin=before, end=storm[-1][0] + _APART)
    calm = replace(about, begin=before - _APART, end=before)
    of_role = {one.role: one.sessions for one in role_peaks(history, calm) or ()}
    rises = [
        (one.sessions - of_role.get(one.role, 0), one) for one in role_peaks(history, around) or ()
    ]
    rise, most = max(rises, key=lambda one: one[0], default=(0, None))
    if most is None or rise < many:
        return ""
    return f"; the role {as_name(most.role)} had {most.sessions:,}, {rise:,} more than before"


def _at_work(
    history: History, about: HistoryPeriod, at: datetime
) -> Counter[tuple[str | None, str | None]]:
    """Return how many sessions of each application and role were sampled at about this time."""
    rows = history.rows(
        f"""SELECT application, role, max(number) AS number FROM (
                SELECT time, application, role, count(*) AS number FROM sessions
                WHERE {IN_PERIOD} AND backend_type = 'client backend' GROUP BY 1, 2, 3) AS t
            GROUP BY 1, 2 ORDER BY 1, 2""",
        replace(about, begin=at - _BESIDE, end=at + _BESIDE).parameters, inside=True,
    )  # fmt: skip
    return Counter({(row["application"], row["role"]): row["number"] for row in rows})
