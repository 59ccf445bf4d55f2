"""Sampling a server's machine in a thread of its own, so also while the server hangs."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from queue import Queue

from mrtuner.facts import Missing
from mrtuner.history.recording.outlet import Outlet
from mrtuner.history.recording.program import Place
from mrtuner.history.recording.rounds import Rounds
from mrtuner.history.recording.sampler import Programs, SourceSample
from mrtuner.history.recording.source import Source
from mrtuner.history.store.writer import Batch
from mrtuner.postgres.local import is_postgres


class HostWatch:
    """Samples the programs of one instance, once a connection has shown where its server runs."""

    def __init__(
        self, instance: str, sources: Iterable[Source], queue: Queue[Batch],
        stop: threading.Event, *, share: float,
    ) -> None:  # fmt: skip
        self.instance, self.stop = instance, stop
        self.rounds = Rounds(sources, share)
        self.outlet = Outlet(instance, queue)
        self.missing: tuple[Missing, ...] = ()
        self._met: Place | None = None
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def meet(self, place: Place) -> None:
        """Sample at this place from now on; called at each connection."""
        self._met = place
        self._wake.set()
        if self._thread is None and self.rounds.sources:
            self._thread = threading.Thread(
                target=self._run, name=f"record host of {self.instance}", daemon=True
            )
            self._thread.start()

    def end(self) -> None:
        self._wake.set()

    def _run(self) -> None:
        programs: Programs | None = None
        while not self.stop.is_set():
            self._wake.clear()
            if self._met is not None and (programs is None or programs.place != self._met):
                place = self._met if programs is None else self._met.after(programs.place)
                programs = Programs(place)
                self.rounds.begin()
            if programs is not None:
                self._sample(programs)
            if not self.stop.is_set():
                self._wake.wait(self.rounds.wait)

    def _sample(self, programs: Programs) -> None:
        due = self.rounds.due()
        samples = [sample for source in due if (sample := self._sampled(programs, source))]
        self.rounds.done(due)
        self.missing = tuple(programs.missing.values())
        self.rounds.adjust(self.outlet)
        if samples:
            self.outlet.send(samples)

    def _sampled(self, programs: Programs, source: Source) -> SourceSample | None:
        """Sample a source; None if it can only be read while the server runs, and it does not."""
        pid = programs.place.postmaster
        if pid is not None and not source.of_machine and not is_postgres(pid):
            return None
        return self.rounds.sampled(source, programs.sample)
