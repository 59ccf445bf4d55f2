"""One change, carried out: forward to its target, or back to its start.

A subclass, the adapter, writes, verifies and restores what it changes. The order is the same for
all of them and is defined here. Each step is first recorded, then announced, then taken. A failure
puts everything back. The next run finishes what a killed run left if the target has been reached,
and puts it back otherwise.

To make something else changeable, write a subclass of `Transaction` in the package that knows it,
add its `Change.method` to `record`, and its case to changed_things.py (tests).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace

from mrtuner.change.journal import Journal, JournalError
from mrtuner.change.record import Change, Outcome, Result, State
from mrtuner.errors import ApplyError, MrTunerError


class StepName(str):
    """The name of a step, given to an observer twice: before it is taken and when it is done."""

    __slots__ = ("done", "reverting")
    done: bool
    reverting: bool  # on the way back

    def __new__(cls, name: str, *, done: bool = False, reverting: bool = False) -> StepName:
        made = super().__new__(cls, name)
        made.done, made.reverting = done, reverting
        return made


#: Called for every step once it is recorded and about to be taken, and again when it is done.
Observer = Callable[[StepName], None]


def unobserved(step: StepName) -> None:
    """Ignore the step."""


class Transaction(ABC):
    """A change in progress."""

    journal: Journal
    change: Change
    at: Observer

    # What an adapter must implement.

    @abstractmethod
    def forward(self) -> None:
        """Take every step to the target, and verify it."""

    @abstractmethod
    def at_target(self) -> bool:
        """Whether everything is as wanted, as far as a single check can tell."""

    @abstractmethod
    def back(self) -> tuple[str, ...]:
        """Put everything back; return the names that keep our value until a restart.

        Values that someone else has changed meanwhile are kept. Raises ApplyError if it cannot be
        done; the journal then keeps the change, and the next run continues.
        """

    @abstractmethod
    def as_before(self, waiting: Sequence[str]) -> str:
        """Describe, for a message, what is in force after `back`."""

    def complete(self) -> None:
        """Take the remaining steps of a killed run that had reached the target."""
        self._note(State.VERIFIED, "found at its target")

    def not_back(self, why: str, error: MrTunerError) -> ApplyError:
        """Return the error for a failed `back`; `why` it was tried is "" after a kill."""
        if not why:
            return ApplyError(error.message, error.hint)
        return ApplyError(
            f"{why}; and the old values could not be put back: {error.message}",
            error.hint or "Run again to continue putting them back.",
        )

    # Common to all adapters.

    def carry_out(self) -> None:
        """Go to the target. ApplyError on failure, with all restored unless it says otherwise."""
        self._or_back(self._all_the_way)
        self.at(StepName("verified"))

    def _all_the_way(self) -> None:
        self.at(StepName("planned"))
        self.forward()

    def finish_or_revert(self) -> Outcome:
        if self.change.state is not State.REVERTING and self.at_target():
            self._or_back(self.complete)
            return self.outcome("finished")
        return self.put_back()

    def put_back(self) -> Outcome:
        waiting = self._back("")
        return self.outcome("reverted", waiting)

    def outcome(self, result: Result, waiting: Sequence[str] = ()) -> Outcome:
        """Describe what happened to this change."""
        return Outcome(
            result=result,
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
        self._tell(f"{name}: done", done=True)

    def _note(self, state: State, step: str) -> None:
        """Record a step. While putting back nothing may stop us, not even a full disk."""
        try:
            self.change = self.journal.note(self.change, state, step)
        except JournalError:
            if state not in (State.REVERTING, State.REVERTED):
                raise
            self.change = replace(self.change, state=state)

    def _tell(self, name: str, *, done: bool = False) -> None:
        """Tell the observer, who may stop us on the way forward but not on the way back."""
        reverting = self.change.state is State.REVERTING
        with suppress(Exception) if reverting else nullcontext():
            self.at(StepName(name, done=done, reverting=reverting))


def _reason(error: BaseException) -> str:
    if isinstance(error, MrTunerError):
        return error.message
    return str(error) or type(error).__name__
