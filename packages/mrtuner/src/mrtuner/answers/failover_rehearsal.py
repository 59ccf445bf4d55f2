"""A failover of a test server, set off and timed from its clients' side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mrtuner import extensions
from mrtuner.answers.recorded import Tell, silent
from mrtuner.errors import UsageError
from mrtuner.failover.predict.client import host_names
from mrtuner.failover.rehearse.dns import Names
from mrtuner.failover.rehearse.paths import ClientPath, look
from mrtuner.failover.rehearse.patroni import Patroni
from mrtuner.failover.rehearse.report import Rehearsed, rehearsed
from mrtuner.failover.rehearse.triggers import CommandTrigger, Manual
from mrtuner.rehearsal import run
from mrtuner.rehearsal.observation import ProbeKind
from mrtuner.rehearsal.probes import Probes, Schedule
from mrtuner.rehearsal.run import RehearsalPatience, Trigger

if TYPE_CHECKING:
    from mrtuner.aws.session import Account

#: Without `give_up`, a probe is given up after this many times `within`, so that a hang that is
#: slightly too long is still measured to its end.
_BEYOND: Final = 2.0
_PATIENT: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """What a rehearsal is about to do: to confirm before anything happens."""

    trigger: Trigger
    cautions: tuple[str, ...]  # reasons to doubt that the probes will see this failover
    ways: Mapping[str, ClientPath]  # direct and, if asked for, pool
    probes: Mapping[str, Probes]
    whole: float  # it ends after this long at the latest [s]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What clients experienced on each way to the server."""

    trigger: str
    within: float | None
    cautions: tuple[str, ...]
    ways: tuple[Rehearsed, ...]


def rehearse(
    dsn: str,
    trigger: str,
    *,
    account: Account | None = None,
    within: float | None = None,
    through: str | None = None,
    connections: int = 10,
    every: float = 0.2,
    give_up: float | None = None,
    steady: float = 5.0,
    quiet: float | None = None,
    whole: float = 600.0,
    write: bool = True,
    confirm: Callable[[Arrangement], None] = lambda _: None,
    tell: Tell = silent,
) -> Rehearsal:
    """Let a test server fail over, and time it as clients of `dsn` and of the pooler `through` do.

    `trigger` is ``rds:INSTANCE``, ``patroni:URL``, ``manual``, or a command that is run without a
    shell; `account` is that of AWS. Times are in seconds: clients may wait `within`, a probe runs
    `every` so long and is given up after `give_up` (twice `within`, else 30), all must succeed for
    `steady`, something must happen within `quiet` (120; by hand: `whole`), and all ends after
    `whole`. Without `write` the probes only read. `confirm` sees what is about to happen, and may
    raise.

    Raises:
        Refused: the server is tagged as production.
        UsageError: a standby is to be written to, or there is no room for so many connections.
        MrTunerError: the failover cannot be set off, or the server does not answer steadily.
    """
    patience = _patience(steady, whole if quiet is None and trigger == "manual" else quiet, whole)
    schedule = _schedule(within, give_up, every, connections, write)
    with ExitStack() as stack:
        cause = _trigger(trigger, account, stack, tell)
        cause.check()
        cautions = tuple(cause.cautions(dsn))
        ways = {"direct": look(dsn), **({} if through is None else {"pool": look(through)})}
        for way in ways.values():
            writes = any(kind.writes for kind in schedule.kinds)
            way.require(writes=writes, sessions=schedule.sessions)
        probes = {name: Probes(way.dsn, schedule, tell=tell) for name, way in ways.items()}
        confirm(
            Arrangement(trigger=cause, cautions=cautions, ways=ways, probes=probes, whole=whole)
        )
        hosts = dict.fromkeys(name for way in ways.values() for name in host_names(way.parameters))
        runs = run.rehearse(
            cause, list(probes.values()), patience=patience,
            sources=[stack.enter_context(Names(tuple(hosts)))], tell=tell,
        )  # fmt: skip
    judged = [
        rehearsed(name, way, one) for (name, way), one in zip(ways.items(), runs, strict=True)
    ]
    return Rehearsal(trigger=cause.words, within=within, cautions=cautions, ways=tuple(judged))


def _trigger(what: str, account: Account | None, stack: ExitStack, tell: Tell) -> Trigger:
    kind, _, rest = what.partition(":")
    if (made := extensions.load(extensions.TRIGGERS, kind)) is not None:
        trigger: Trigger = made(rest, account)
        return trigger
    if kind == "patroni":
        return Patroni(rest)
    return Manual(tell) if what == "manual" else stack.enter_context(CommandTrigger(what))


def _schedule(
    within: float | None, give_up: float | None, every: float, connections: int, write: bool
) -> Schedule:
    patience = give_up or (_PATIENT if within is None else _BEYOND * within)
    if within is not None and patience <= within:
        raise UsageError(
            f"a probe given up after {patience:g} s cannot show whether a client waits "
            f"{within:g} s",
            "Give a longer --give-up than --within.",
        )
    return Schedule(
        interval=every,
        timeout=patience,
        kinds=tuple(kind for kind in ProbeKind if write or not kind.writes),
        held=connections,
        at_once=connections,
    )


def _patience(steady: float, quiet: float | None, whole: float) -> RehearsalPatience:
    usual = RehearsalPatience()
    return RehearsalPatience(
        before=steady, settle=steady, quiet=quiet or usual.quiet, whole=whole,
        poll=min(usual.poll, steady),
    )  # fmt: skip
