"""How a change under way goes from step to step: written down first, then told, then taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace

from mrtuner.change.journal import Journal, JournalError
from mrtuner.change.record import Change, State

#: Told of every step when it has been written down and is about to be taken, and when it is done.
Observer = Callable[[str], None]


def unseen(step: str) -> None:
    """Observe nothing."""


class Steps:
    """What every transaction does at each of its steps, whatever it changes."""

    journal: Journal
    change: Change
    at: Observer

    @contextmanager
    def _step(self, state: State, name: str) -> Iterator[None]:
        self._note(state, name)
        self._tell(name)
        yield
        self._tell(f"{name}: done")

    def _note(self, state: State, step: str) -> None:
        """Write the step down. On the way back nothing may stop us, not even a full disk."""
        try:
            self.change = self.journal.note(self.change, state, step)
        except JournalError:
            if state not in (State.REVERTING, State.REVERTED):
                raise
            self.change = replace(self.change, state=state)

    def _tell(self, step: str) -> None:
        """Tell the observer, who may stop us on the way there but not on the way back."""
        with suppress(Exception) if self.change.state is State.REVERTING else nullcontext():
            self.at(step)
