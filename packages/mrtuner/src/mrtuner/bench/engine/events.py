"""Progress reports of a running measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mrtuner.bench.record.document import MeasuredRun

#: Every run activates its side, copies the data, warms up and measures.
STEPS_OF_A_RUN: Final = 4


class Stage(StrEnum):
    """What is being done."""

    ANNOUNCED = "announced"  # how big the databases will be
    PREPARING = "preparing"
    ACTIVATING = "activating"
    COPYING = "copying"
    WARMING_UP = "warming up"
    MEASURING = "measuring"
    MEASURED = "measured"
    REPEATING = "repeating"
    NOTE = "note"
    CLEANING_UP = "cleaning up"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Event:
    """For a progress bar: `step` of `steps` are done. A repeated block takes no further steps."""

    stage: Stage
    step: int
    steps: int
    text: str
    sample: MeasuredRun | None = None


Progress = Callable[[Event], None]


class Teller:
    """Counts the steps and reports them."""

    def __init__(self, progress: Progress | None, steps: int) -> None:
        self.progress, self.steps, self.step = progress, steps, 0

    def tell(self, stage: Stage, text: str, sample: MeasuredRun | None = None) -> None:
        """Report an event, if there is a callback."""
        if self.progress is not None:
            self.progress(Event(stage, self.step, self.steps, text, sample))

    def done(self) -> None:
        self.step = self.steps
        self.tell(Stage.DONE, "done")
