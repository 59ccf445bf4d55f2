"""A proof's progress on stderr: a bar on a terminal, a line a run elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from mrtuner.cli import terminal
from mrtuner.escape import printable

if TYPE_CHECKING:
    from mrtuner.bench.events import Event

#: What is worth a line that stays; the rest only moves the bar.
_LASTING: Final = frozenset({"announced", "measured", "repeating", "note"})


@contextmanager
def shown() -> Iterator[Callable[[Event], None]]:
    """A function to tell events to, for as long as the block lasts."""
    if terminal.animated(sys.stderr):
        with _bar() as tell:
            yield tell
    else:
        yield _line


def _line(event: Event) -> None:
    if event.stage in _LASTING:
        terminal.print_note(f"  [{event.step}/{event.steps}] {event.text}")


@contextmanager
def _bar() -> Iterator[Callable[[Event], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.text import Text

    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=None)

        def tell(event: Event) -> None:
            if event.stage in _LASTING:
                bar.console.print(Text(printable(f"  {event.text}")))
            what = Text(printable(f"{event.stage.value}: {event.text}")).markup
            bar.update(task, completed=event.step, total=event.steps, description=what)

        yield tell
