"""When each source of an instance is sampled: at its interval, within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from mrtuner.history.recording.budget import Budget
from mrtuner.history.recording.outlet import Outlet
from mrtuner.history.recording.sampler import SourceSample
from mrtuner.history.recording.source import Source

#: The kind of the event that a source is sampled more or less often.
PACE: Final = "pace"
#: Between two adjustments to the budget [s].
_ADJUST: Final = 10.0


class Rounds:
    """The sources of one thread, and when each is due."""

    def __init__(self, sources: Iterable[Source], share: float) -> None:
        """`share`: the share of one session's time that the samples may take."""
        self.sources = {source.name: source for source in sources}
        self.budget = Budget.of(
            ((source.name, source.interval) for source in self.sources.values()), share
        )
        self.begin()

    def begin(self) -> None:
        self._adjusted = time.monotonic()
        self._due = dict.fromkeys(self.sources, self._adjusted)

    @property
    def wait(self) -> float:
        now = time.monotonic()
        return max(0.0, min(self._due.values(), default=now + 1.0) - now)

    def due(self) -> Sequence[Source]:
        now = time.monotonic()
        return [self.sources[name] for name, when in self._due.items() if when <= now]

    def sampled(
        self, source: Source, sample: Callable[[Source], SourceSample | None]
    ) -> SourceSample | None:
        """Take a sample, and note how long it took."""
        begin = time.monotonic()
        taken = sample(source)
        self.budget.took(source.name, time.monotonic() - begin)
        return taken

    def done(self, sources: Iterable[Source]) -> None:
        """Note that these were sampled, or could not be."""
        for source in sources:
            pace = self.budget.paces[source.name]
            self._due[source.name] = _next(
                self._due[source.name], pace.actual, time.monotonic()
            )  # fmt: skip

    def adjust(self, outlet: Outlet) -> None:
        """Adjust one interval to the budget, now and then; a note tells it."""
        now = time.monotonic()
        if now - self._adjusted > _ADJUST:
            self._adjusted = now
            if name := self.budget.adjust():
                actual = self.budget.paces[name].actual
                outlet.note(PACE, f"{name} is sampled every {actual:g} s")


def _next(due: float, interval: float, now: float) -> float:
    """Return when to sample next: in step with the interval, without making up missed samples."""
    missed = max(0.0, (now - due) // interval)
    return due + (missed + 1) * interval
