"""Which plans a statement had, and whether it had another one when it became slower."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, as_sampled
from mrtuner.history.reading import History
from mrtuner.wording import enumerated

#: A sample of plans that were written on both sides of a moment says nothing of either.
_STEP: Final = timedelta(minutes=1)
_SHOWN: Final = 3
#: A plan that was so many times as fast was the usual one.
_FASTER: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedPlan:
    """One plan of a statement, as far as it was in the server's log."""

    plan: str  # hash of its shape
    shape: str  # its nodes, one a line
    executions: int
    ms: float
    first: datetime  # UTC, as `last`: of the samples that counted it
    last: datetime

    @property
    def mean(self) -> float:
        """Time of an execution [ms]."""
        return self.ms / self.executions


def logged_plans(
    history: History, about: HistoryPeriod, statement: int, database: str | None = None
) -> tuple[LoggedPlan, ...]:
    """The plans of a statement in a period, in the order in which they were first seen."""
    if not as_sampled(history, "plans", about):
        return ()
    rows = history.rows(
        f"""SELECT plan, max(shape) AS shape, sum(executions)::BIGINT AS executions,
                   sum(ms) AS ms, min(time) AS first, max(time) AS last
            FROM plans WHERE {IN_PERIOD} AND query_id = {int(statement)} AND executions > 0
                 AND ($database IS NULL OR database = $database)
            GROUP BY plan ORDER BY first, plan""",
        about.parameters | {"database": database}, inside=True,
    )  # fmt: skip
    return tuple(_plan(row) for row in rows)


def _plan(row: Mapping[str, Any]) -> LoggedPlan:
    times = {name: row[name].replace(tzinfo=UTC) for name in ("first", "last")}
    return LoggedPlan(**{**row, **times})


def plan_changed(
    history: History, about: HistoryPeriod, statement: int, database: str | None,
    begin: datetime, end: datetime,
) -> str:  # fmt: skip
    """Whether a statement that was slower from `begin` to `end` had another plan than before.

    A clause for a sentence; empty where no plan of that time was logged.
    """

    def logged(since: datetime, until: datetime) -> tuple[LoggedPlan, ...]:
        part = HistoryPeriod(instance=about.instance, begin=since, end=until)
        return logged_plans(history, part, statement, database)

    now = max(logged(begin + _STEP, end + _STEP), key=lambda one: one.ms, default=None)
    if now is None:
        return ""
    before = logged(about.begin, begin)
    # The log may have only what took long: then the usual plan is not known.
    fast = [one for one in before if _FASTER * one.mean <= now.mean]
    if fast:
        usual = max(fast, key=lambda one: one.executions)
        if usual.plan == now.plan:
            return "with the same plan as before"
        return f"with another plan than before: {_difference(now.shape, usual.shape)}"
    if any(one.plan == now.plan for one in before):
        return f"with a plan that was as slow before: {_nodes(now.shape.splitlines())}"
    return f"its plan was in the log for the first time that day: {_nodes(now.shape.splitlines())}"


def _difference(new: str, old: str) -> str:
    """What is in one shape alone, in words."""
    now, before = ([line.strip() for line in text.splitlines()] for text in (new, old))
    more = [one for one in now if one not in before]
    less = [one for one in before if one not in now]
    if not more and not less:
        return "the same nodes in another order"
    if not more:
        return f"without {_nodes(less)}"
    return _nodes(more) + (f" instead of {_nodes(less)}" if less else "")


def _nodes(lines: Sequence[str]) -> str:
    """Name different nodes, scans first: they say how a table is read."""
    told = sorted(dict.fromkeys(one.strip() for one in lines), key=lambda one: "Scan" not in one)
    return enumerated([*told[:_SHOWN], *(["more"] if len(told) > _SHOWN else [])])
