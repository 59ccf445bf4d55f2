"""What a sampling thread hands to the writer: batches. Events are never dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from queue import Full, Queue

from mrtuner.facts import Missing
from mrtuner.history.moments import timestamp
from mrtuner.history.recording.sampler import Identity, SourceSample
from mrtuner.history.store.writer import Batch, HistoryEvent

#: Called with a sentence for the operator.
Tell = Callable[[str], None]


class Outlet:
    """Puts the batches of one instance into the writer's queue."""

    def __init__(self, instance: str, queue: Queue[Batch]) -> None:
        self.queue = queue
        self._unsent = Batch(instance=instance)  # what must not be left out
        self._left_out = 0

    def meet(self, identity: Identity) -> None:
        """Note which server answers; the next batch carries it."""
        self._unsent = replace(self._unsent, identity=identity)

    def note(self, kind: str, detail: str, at: int | None = None) -> None:
        """Add an event of the time `at` [µs since 1970], by default now."""
        event = HistoryEvent(
            at=at or timestamp(), instance=self._unsent.instance, kind=kind, detail=detail
        )
        self._unsent = replace(self._unsent, events=(*self._unsent.events, event))

    def send(
        self, samples: Iterable[SourceSample] = (), texts: Mapping[int, str] | None = None,
        missing: Iterable[Missing] | None = None,
    ) -> bool:  # fmt: skip
        """Hand over what was read; return False if the queue is full.

        Then only the identity and the events are kept, for the next batch.
        """
        batch = replace(
            self._unsent, samples=tuple(samples), texts=texts or {},
            missing=None if missing is None else tuple(missing),
        )  # fmt: skip
        try:
            self.queue.put_nowait(batch)
        except Full:
            self._left_out += bool(batch.samples)
            return False
        self._unsent = Batch(instance=self._unsent.instance)
        if self._left_out:
            self.note(
                "gap", f"{self._left_out} times, samples were dropped: the store could not keep up"
            )
            self._left_out = 0
        return True
