"""Progress on stderr: one bar on a terminal, single lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from mrtuner.cli.common import terminal
from mrtuner.escape import printable

if TYPE_CHECKING:
    from rich.progress import Progress

    from mrtuner.bench.engine.events import Event

#: Events of a measurement that are worth a line; the others only move the bar.
_LASTING: Final = frozenset({"announced", "measured", "repeating", "note"})


@contextmanager
def bar() -> Iterator[_Drawn | _Lines]:
    """A bar while the block lasts; lines of text where none can be drawn."""
    if not terminal.animated(sys.stderr):
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    with Progress(
        *columns, TextColumn("{task.description}"), console=Console(stderr=True), transient=True
    ) as drawn:
        yield _Drawn(drawn)


@contextmanager
def of_measurement() -> Iterator[Callable[[Event], None]]:
    """A function that shows the events of a measurement, for as long as the block lasts."""
    with bar() as shown:

        def tell(event: Event) -> None:
            shown.move(event.step, event.steps, f"{event.stage.value}: {event.text}")
            if event.stage in _LASTING:
                shown.note(event.text)

        yield tell


class _Drawn:
    """Shows the progress of some work as a bar."""

    def __init__(self, drawn: Progress) -> None:
        self.drawn, self.task = drawn, drawn.add_task("starting", total=None)

    def move(self, done: float, of: float, text: str = "", /) -> None:
        """Show `done` out of `of` as done, with `text` next to the bar."""
        from rich.text import Text

        what = Text(printable(text)).markup
        self.drawn.update(self.task, completed=done, total=of, description=what)

    def note(self, text: str, /) -> None:
        """Print a line that stays."""
        from rich.text import Text

        self.drawn.console.print(Text(printable(f"  {text}")))

    def line(self, _text: str, /) -> None:
        """Print nothing: the bar shows it."""


class _Lines:
    """Shows the progress of some work in lines of text."""

    def __init__(self) -> None:
        self.where = self.last = ""

    def move(self, done: float, of: float, _text: str = "", /) -> None:
        self.where = f"[{done:.0f}/{of:.0f}] "

    def note(self, text: str, /) -> None:
        terminal.print_note(f"  {self.where}{text}")

    def line(self, text: str, /) -> None:
        """Print a line, unless it repeats the previous one."""
        if text != self.last:
            terminal.print_note(f"  {text}")
            self.last = text
