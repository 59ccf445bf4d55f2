"""Make a server fail over, and time it as clients see it.

Open-loop probes run before, during and after. A `Trigger` sets off the failover, and what its side
reports goes on the same timeline as what clients saw. All triggers, including RDS, work alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Final, Protocol

from mrtuner.described import Doc
from mrtuner.errors import MrTunerError
from mrtuner.rehearsal.observation import Attempt, Observation, primaries
from mrtuner.rehearsal.probes import Probes

Tell = Callable[[str], None]

#: Times up to this long [s] before the trigger still count: clocks may differ by that much.
_ASTRAY: Final = 2.0


@dataclass(frozen=True, slots=True)
class News:
    """Something that was reported; `at` is the time on the reporter's clock."""

    text: str
    origin: str  # status, event, command, patroni, name
    at: datetime | None = None


class Source(Protocol):
    """Anything that has something to report while the probes run."""

    def news(self) -> Iterable[News]:
        """Return what is new since the last call. MrTunerError if it cannot be queried just now."""
        ...


class Trigger(Source, Protocol):
    """Something that sets off a failover."""

    @property
    def words(self) -> str:
        """What will be done, for the confirmation prompt; contains no secret."""
        ...

    @property
    def over(self) -> bool:
        """Whether the failover has ended, as far as the trigger's side knows."""
        ...

    def check(self) -> None:
        """Raise MrTunerError if the failover cannot be set off, Refused if it must not be."""
        ...

    def cautions(self, dsn: str) -> Iterable[str]:
        """Return reasons to doubt that probes of `dsn` will see this failover."""
        ...

    def fire(self) -> None:
        """Set off the failover; return when that has been accepted."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalPatience:
    """How long to wait at each step [s]."""

    before: float = 5.0  # of steady answers before anything is done
    settle: float = 5.0  # of steady answers before the outage counts as over
    quiet: float = 120.0  # for anything to happen at all
    whole: float = 3600.0  # for everything to be well again
    #: From the end of one run to the next. RDS abandons a failover that follows another too soon
    #: (RDS-EVENT-0034); how soon is not documented.
    between: float = 120.0
    poll: float = 1.0  # between two queries to a source


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineMark:
    """Something that was reported."""

    at: Annotated[float, Doc("seconds since the first probe")]
    text: Annotated[str, Doc("what was reported")]
    origin: Annotated[str, Doc("status, event, command, patroni or name")]
    by_their_clock: Annotated[
        bool, Doc("`at` is by the reporter's clock; false: when it was read")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One failover, or attempt at one, as seen by clients that use one way to connect."""

    asked: float  # when it was set off, in seconds since the probes began
    accepted: float  # when it had been accepted
    settled: bool  # all was well again before the patience ran out
    observation: Observation
    marks: tuple[TimelineMark, ...]


def rehearse(
    trigger: Trigger,
    ways: Sequence[Probes],
    *,
    patience: RehearsalPatience | None = None,
    sources: Sequence[Source] = (),
    tell: Tell = lambda _text: None,
) -> tuple[Run, ...]:
    """Set off a failover while probing every way; return one run per way, in order.

    Raises MrTunerError, before anything is set off, if the server does not answer steadily.
    """
    allowed = patience or RehearsalPatience()
    with ExitStack() as stack:
        for probes in ways:
            stack.enter_context(probes)
        tell("probing; waiting for steady answers")
        _require_steady(ways, allowed)
        watch = _Watch(trigger, ways, (trigger, *sources), allowed, tell)
        watch.fire()
        settled = watch.until_settled()
        return tuple(
            Run(
                asked=watch.asked + late,
                accepted=watch.accepted + late,
                settled=settled,
                observation=probes.finish(),
                marks=tuple(replace(mark, at=mark.at + late) for mark in watch.marks),
            )
            for probes, late in [(probes, probes.now() - ways[0].now()) for probes in ways]
        )


def _require_steady(ways: Sequence[Probes], patience: RehearsalPatience) -> None:
    for probes in ways:
        if not probes.wait_until_steady(patience.before, patience=patience.before + 30):
            raise MrTunerError(
                "the server did not answer every probe even before the failover was triggered",
                "Nothing was triggered. Check what it is busy with, or probe less often with "
                "--every.",
            )


class _Watch:
    """One run from the trigger on; its times are by the clock of the first probes."""

    def __init__(
        self,
        trigger: Trigger,
        ways: Sequence[Probes],
        sources: Sequence[Source],
        patience: RehearsalPatience,
        tell: Tell,
    ) -> None:
        self.trigger, self.ways, self.sources = trigger, ways, sources
        self.patience, self.tell = patience, tell
        self.marks: list[TimelineMark] = []
        self.asked = self.accepted = 0.0
        self._before: set[tuple[object, ...] | None] = set()

    def now(self) -> float:
        return self.ways[0].now()

    def fire(self) -> None:
        """Set off the failover."""
        for source in self.sources:
            self._hear(source)  # discard what was reported before
        self.marks.clear()
        self._before = {_who(one) for probes in self.ways for one in probes.attempts()}
        self.asked = self.now()
        self.trigger.fire()
        self.accepted = self.now()
        self.tell(f"triggered: {self.trigger.words}")
        self._look()

    def until_settled(self) -> bool:
        """Watch until all is well again or nothing happens for `quiet`; False after `whole` [s]."""
        while self.now() - self.asked < self.patience.whole:
            self._look()
            if self._over():
                self._look()  # an event may come later than the status it explains
                return True
            time.sleep(self.patience.poll)
        return False

    def _over(self) -> bool:
        waited = self.now() - self.accepted
        if not self.trigger.over or waited < self.patience.settle or not self._answers_well():
            return False
        return self._something_happened() or waited >= self.patience.quiet

    def _answers_well(self) -> bool:
        """Whether a single primary answers well: with two at once the failover is not over."""
        settle = self.patience.settle
        return all(
            probes.wait_until_steady(settle, patience=0.0)
            and len({one.who for one in primaries(probes.attempts(), since=probes.now() - settle)})
            <= 1
            for probes in self.ways
        )

    def _something_happened(self) -> bool:
        """Whether clients noticed anything: a source may report it long before or afterwards."""
        since = self.asked - _ASTRAY
        attempts = [one for probes in self.ways for one in probes.attempts() if one.ended >= since]
        return any(not one.good or _who(one) not in self._before for one in attempts)

    def _look(self) -> None:
        for source in self.sources:
            for news in self._hear(source):
                self.marks.append(self._placed(news))
                self.tell(f"{news.origin}: {news.text}")

    def _hear(self, source: Source) -> list[News]:
        """Collect news. A source that cannot be queried does not end a measurement in progress."""
        try:
            return list(source.news())
        except MrTunerError as error:
            self.tell(f"could not be queried: {error.message}")
            return []

    def _placed(self, news: News) -> TimelineMark:
        now = self.now()
        ours = now if news.at is None else now - (datetime.now(UTC) - news.at).total_seconds()
        fits = news.at is not None and self.asked - _ASTRAY <= ours <= now
        return TimelineMark(
            at=ours if fits else now, text=news.text, origin=news.origin, by_their_clock=fits
        )


def _who(one: Attempt) -> tuple[object, ...] | None:
    return None if one.server is None else one.server.who
