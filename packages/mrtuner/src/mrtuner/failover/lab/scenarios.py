"""The scenarios: what breaks, what takes over when, and what is predicted.

There is a prediction for each single attempt, since it depends on when the attempt began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from mrtuner.errors import BadValue
from mrtuner.failover.lab.lab import Lab
from mrtuner.failover.predict import hang_times as predict
from mrtuner.failover.predict.hang_times import Case, Prediction, Situation
from mrtuner.failover.predict.timer_wheel import Band
from mrtuner.failover.settings.advice import settings

POOLER: Final = "pooler"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultMoment:
    """One attempt's situation, and when the fault and the takeover came, counted from its start."""

    situation: Situation
    within: float  # s, the bound a pooler is configured for
    fault: float  # s; 0 if it began after the fault
    takeover: float  # s


Expected = Callable[[Case, FaultMoment], Prediction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One way for a primary to fail, as seen by clients that connect through `entrance`."""

    name: str
    words: str
    fault: Callable[[Lab], None]
    takeover: Callable[[Lab], None]
    expected: Expected
    entrance: str = "a"  # one of Lab.dsns(), or POOLER
    observers: str = "both, read-write"
    manager: str | None = None  # what elects the primary
    late: bool = False  # whether the takeover comes after all hangs have ended
    cases: tuple[Case, ...] = (Case.CONNECT, Case.IDLE, Case.FLIGHT)
    #: Seconds from the fault to the takeover.
    after: float = 3.0
    #: What finally stops the old primary, if the fault has not.
    fence: Callable[[Lab], None] | None = None


def _silent(case: Case, moment: FaultMoment) -> Prediction:
    return _BY_CASE[case](moment.situation)


_BY_CASE: Final[Mapping[Case, Callable[[Situation], Prediction]]] = {
    Case.CONNECT: predict.connecting,
    Case.IDLE: predict.idle,
    Case.FLIGHT: predict.in_flight,
}


def _at_once(case: Case, moment: FaultMoment) -> Prediction:
    """The machine's kernel refuses or resets immediately."""
    return Prediction(
        case=case,
        span=Band.exactly(moment.fault),
        decided_by="the kernel still runs: it resets and refuses connections",
        steps=(),
    )


def _frozen(case: Case, moment: FaultMoment) -> Prediction:
    """TCP works, so only the client's own limits count."""
    found = predict.frozen(moment.situation)
    limit = moment.situation.client.connect_timeout
    if case is not Case.CONNECT or limit is None:
        return replace(found, case=case)
    decided = moment.situation.client.with_origin("connect_timeout", f"{limit:g}")
    return replace(found, case=case, span=Band.exactly(limit), decided_by=decided)


def _moved(case: Case, moment: FaultMoment) -> Prediction:
    """Silent until the address is moved, which the kernel finds out at its next timer."""
    found = _silent(
        case, replace(moment, situation=replace(moment.situation, away=moment.takeover))
    )
    if found.noticed is None or found.noticed == found.span:
        return found
    return replace(found, span=found.noticed, decided_by="the first timer after the address moved")


def _as_ever(case: Case, _moment: FaultMoment) -> Prediction:
    """The old primary continues as if nothing had happened."""
    words = "the old primary does not notice and answers"
    return Prediction(case=case, span=Band.exactly(0.0), decided_by=words, steps=())


def _pooled(case: Case, moment: FaultMoment) -> Prediction:
    """PgBouncer's limits; its client has none. It checks waiting clients three times a second."""
    now = moment.situation
    advised = settings("pgbouncer", moment.within, now.kernel, now.path).cases
    found = next(each for each in advised if each.case is case)
    if case is not Case.CONNECT or found.span is None:
        return found
    return replace(found, span=found.span.plus(_LOOK))


#: How late a pooler's limit may take effect [s]. Source: PgBouncer's janitor.c, full_maint_period.
_LOOK: Final = Band(0.0, 1 / 6, 1 / 3)


def _fail_over(lab: Lab) -> None:
    lab.promote("b")


def _move(lab: Lab) -> None:
    lab.promote("b")
    lab.move("b")


def _rename(lab: Lab) -> None:
    lab.promote("b")
    lab.rename("b")


SCENARIOS: Final = {
    one.name: one
    for one in (
        Scenario(
            name="crash", words="every process is killed (kill -9); the kernel still runs",
            fault=lambda lab: lab.crash("a"), takeover=_fail_over, expected=_at_once,
        ),
        Scenario(
            name="silent-loss", words="the machine loses power: nothing answers",
            fault=lambda lab: lab.silence("a"), takeover=_fail_over, expected=_silent,
        ),
        Scenario(
            name="frozen", words="SIGSTOP to every process; the kernel still acknowledges",
            fault=lambda lab: lab.freeze("a"), takeover=_fail_over, expected=_frozen,
            fence=lambda lab: lab.crash("a"),
        ),
        Scenario(
            name="partition", words="the machines lose contact, clients reach both: two primaries",
            fault=lambda lab: lab.cut(), takeover=_fail_over, expected=_as_ever,
            cases=(Case.CONNECT, Case.IDLE), fence=lambda lab: lab.crash("a"),
        ),
        Scenario(
            name="address-move", words="power lost; then the address moves to the other machine",
            fault=lambda lab: lab.silence("a"), takeover=_move, expected=_moved,
            entrance="address", observers="address",
        ),
        Scenario(
            name="name-switch", words="power lost; then the name points to the other machine",
            fault=lambda lab: lab.silence("a"), takeover=_rename, expected=_silent,
            entrance="name", observers="name",
        ),
        Scenario(
            name="pgbouncer", words="power lost behind PgBouncer; then the address moves",
            fault=lambda lab: lab.silence("a"), takeover=_move, expected=_pooled,
            entrance=POOLER, observers=POOLER, late=True,
        ),
        Scenario(
            name="patroni", words="power lost; Patroni elects the other machine",
            fault=lambda lab: lab.silence("a"), takeover=lambda lab: lab.await_leader("b"),
            expected=_silent, manager="patroni", after=0.0,
        ),
    )
}  # fmt: skip


def scenario(name: str) -> Scenario:
    if name not in SCENARIOS:
        raise BadValue(f"unknown scenario {name!r}", f"Use one of {', '.join(SCENARIOS)}.")
    return SCENARIOS[name]
