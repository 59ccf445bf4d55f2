"""Let a server fail over on purpose, and time it from the client's side.

Open-loop probes run before, during and after; what sets it off is a `Trigger`, and what its side
tells goes on the same line as what clients saw. The same for every trigger, RDS included.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from mrtuner.errors import MrTunerError
from mrtuner.rehearsal.observation import Observation, Server, primaries
from mrtuner.rehearsal.probes import Probes

Tell = Callable[[str], None]

#: Another clock may be so far [s] behind ours and its times still be taken for what they say.
_ASTRAY: Final = 2.0


@dataclass(frozen=True, slots=True)
class News:
    """Something that was said; `at` is the moment by the clock of whoever said it."""

    text: str
    origin: str  # status, event, command, patroni, name
    at: datetime | None = None


class Source(Protocol):
    """Whoever has something to tell while the probes run."""

    def news(self) -> Iterable[News]:
        """What is new since the last call. MrTunerError when it cannot be asked just now."""
        ...


class Trigger(Source, Protocol):
    """What sets a failover off."""

    @property
    def words(self) -> str:
        """What will be done, for the question beforehand; no secret in it."""
        ...

    @property
    def over(self) -> bool:
        """Whether it has ended, as far as its own side knows."""
        ...

    def check(self) -> None:
        """MrTunerError when it cannot be set off, Refused when it must not be."""
        ...

    def fire(self) -> None:
        """Set it off; return when it has been taken."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for what [s]."""

    before: float = 5.0  # of steady answers before anything is done
    settle: float = 5.0  # of steady answers after which the outage counts as over
    quiet: float = 120.0  # for anything to happen at all
    whole: float = 3600.0  # for everything to be well again
    #: From the end of one run to the next. RDS abandons a failover that comes too soon after one
    #: (RDS-EVENT-0034); how soon is not said.
    between: float = 120.0
    poll: float = 1.0  # between two questions to whoever has something to tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that was said, in seconds since the probes began.

    `at` is where it belongs on the line: by the teller's clock where that fits with ours, else
    when we heard of it. Both come to the second or so.
    """

    at: float
    text: str
    origin: str
    by_their_clock: bool = False

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "at": round(self.at, 3),
            "text": self.text,
            "origin": self.origin,
            "by_their_clock": self.by_their_clock,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One time that a server went away, or was to, as clients of one kind of way saw it."""

    asked: float  # when it was set off, in seconds since the probes began
    accepted: float  # when that had been taken
    settled: bool  # all was well again before patience ended
    observation: Observation
    marks: tuple[Mark, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "asked": round(self.asked, 3),
            "accepted": round(self.accepted, 3),
            "settled": self.settled,
            "marks": [mark.to_dict() for mark in self.marks],
            "observation": self.observation.to_dict(),
        }


def rehearse(
    trigger: Trigger,
    ways: Sequence[Probes],
    *,
    patience: Patience | None = None,
    sources: Sequence[Source] = (),
    tell: Tell = lambda _text: None,
) -> tuple[Run, ...]:
    """Set it off while every way is probed; a run for each way, in their order.

    Raises MrTunerError, before anything is set off, when the server does not answer steadily.
    """
    allowed = patience or Patience()
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


def _require_steady(ways: Sequence[Probes], patience: Patience) -> None:
    for probes in ways:
        if not probes.wait_until_steady(patience.before, patience=patience.before + 30):
            raise MrTunerError(
                "the server did not answer every probe well before anything was done",
                "Nothing was set off. See what it is busy with, or probe less often: --every.",
            )


class _Watch:
    """One run, from the trigger on, on the clock of the first probes."""

    def __init__(
        self,
        trigger: Trigger,
        ways: Sequence[Probes],
        sources: Sequence[Source],
        patience: Patience,
        tell: Tell,
    ) -> None:
        self.trigger, self.ways, self.sources = trigger, ways, sources
        self.patience, self.tell = patience, tell
        self.marks: list[Mark] = []
        self.asked = self.accepted = 0.0
        self._before: set[Server | None] = set()

    def now(self) -> float:
        return self.ways[0].now()

    def fire(self) -> None:
        """From here on things happen."""
        for source in self.sources:
            self._hear(source)  # what is there to be read was said of the time before
        self.marks.clear()
        self._before = {one.server for probes in self.ways for one in probes.attempts()}
        self.asked = self.now()
        self.trigger.fire()
        self.accepted = self.now()
        self.tell(f"set off: {self.trigger.words}")
        self._look()

    def until_settled(self) -> bool:
        """Look until all is well again, or nothing has happened for long; False: patience ended."""
        while self.now() - self.asked < self.patience.whole:
            self._look()
            if self._over():
                self._look()  # an event may be later than the status that it explains
                return True
            time.sleep(self.patience.poll)
        return False

    def _over(self) -> bool:
        waited = self.now() - self.accepted
        if not self.trigger.over or waited < self.patience.settle or not self._answers_well():
            return False
        return self._something_happened() or waited >= self.patience.quiet

    def _answers_well(self) -> bool:
        """By one primary: two at once are not the end of a failover."""
        settle = self.patience.settle
        return all(
            probes.wait_until_steady(settle, patience=0.0)
            and len(primaries(probes.attempts(), since=probes.now() - settle)) <= 1
            for probes in self.ways
        )

    def _something_happened(self) -> bool:
        """To clients: whoever tells may say so long before, or after, it is true."""
        since = self.asked - _ASTRAY
        attempts = [one for probes in self.ways for one in probes.attempts() if one.ended >= since]
        return any(not one.good or one.server not in self._before for one in attempts)

    def _look(self) -> None:
        for source in self.sources:
            for news in self._hear(source):
                self.marks.append(self._placed(news))
                self.tell(f"{news.origin}: {news.text}")

    def _hear(self, source: Source) -> list[News]:
        """That somebody cannot be asked does not end a measurement under way."""
        try:
            return list(source.news())
        except MrTunerError as error:
            self.tell(f"could not be asked: {error.message}")
            return []

    def _placed(self, news: News) -> Mark:
        now = self.now()
        ours = now if news.at is None else now - (datetime.now(UTC) - news.at).total_seconds()
        fits = news.at is not None and self.asked - _ASTRAY <= ours <= now
        return Mark(
            at=ours if fits else now, text=news.text, origin=news.origin, by_their_clock=fits
        )
