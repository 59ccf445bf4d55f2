"""One change, carried out: forward to its target, or back to its start.

What is changed is an adapter's business: a subclass that writes, looks and puts back. The order of
things is the same for all of them and stands here. A step is written down first, then told, then
taken. A failure puts everything back. What a killed run left is finished by the next one if the
target is reached, and put back otherwise.

To make something else changeable: a subclass of `Transaction` in the room that knows it, with its
`Change.method` in `record`, and its case in tests/change/test_change_killed.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace

from mrtuner.change.journal import Journal, JournalError
from mrtuner.change.record import Change, Outcome, Result, State
from mrtuner.errors import ApplyError, MrTunerError

#: Told of every step when it has been written down and is about to be taken, and when it is done.
Observer = Callable[[str], None]


def unobserved(step: str) -> None:
    """Observe nothing."""


class Transaction(ABC):
    """A change under way."""

    journal: Journal
    change: Change
    at: Observer

    # What an adapter must know.

    @abstractmethod
    def forward(self) -> None:
        """Take every step to the target, and verify it."""

    @abstractmethod
    def at_target(self) -> bool:
        """Whether everything is as wanted, as far as one look can tell."""

    @abstractmethod
    def back(self) -> tuple[str, ...]:
        """Put everything back; what keeps our value until a restart.

        What somebody else has changed meanwhile is theirs and stays. Raises ApplyError when it
        cannot be done; the journal then remembers, and the next run goes on.
        """

    @abstractmethod
    def as_before(self, waiting: Sequence[str]) -> str:
        """What is in force after `back`, for a message."""

    def complete(self) -> None:
        """Take the steps that remain where a killed run had reached the target."""
        self._note(State.VERIFIED, "found at its target")

    def not_back(self, why: str, error: MrTunerError) -> ApplyError:
        """The error for a `back` that failed, with `why` it was tried ("": after a kill)."""
        if not why:
            return ApplyError(error.message, error.hint)
        return ApplyError(
            f"{why}; and the old values could not be put back: {error.message}",
            error.hint or "Run again to go on putting them back.",
        )

    # What is the same for all.

    def carry_out(self) -> None:
        """To the target. ApplyError when that fails: everything is back then, or it says not."""
        self._or_back(self._all_the_way)
        self.at("verified")

    def _all_the_way(self) -> None:
        self.at("planned")
        self.forward()

    def recover(self) -> Outcome:
        """Finish or put back what a killed run has left."""
        if self.change.state is not State.REVERTING and self.at_target():
            self._or_back(self.complete)
            return self.outcome("finished")
        return self.put_back()

    def put_back(self) -> Outcome:
        """Put back what a killed run has left."""
        waiting = self._back("")
        return self.outcome("reverted", waiting)

    def outcome(self, did: Result, waiting: Sequence[str] = ()) -> Outcome:
        """What has become of this change."""
        return Outcome(
            did=did,
            change=self.change.id,
            changed=self.change.names,
            waiting=tuple(waiting),
            was_undo=self.change.undoes is not None,
        )

    def _or_back(self, steps: Callable[[], None]) -> None:
        try:
            steps()
        except BaseException as error:
            waiting = self._back(_reason(error))
            if not isinstance(error, Exception):
                raise  # interrupted by the user; everything is back
            hint = error.hint if isinstance(error, MrTunerError) else None
            raise ApplyError(f"{_reason(error)}; {self.as_before(waiting)}", hint) from error

    def _back(self, why: str) -> tuple[str, ...]:
        try:
            return self.back()
        except MrTunerError as error:
            raise self.not_back(why, error) from error

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


def _reason(error: BaseException) -> str:
    if isinstance(error, MrTunerError):
        return error.message
    return str(error) or type(error).__name__
