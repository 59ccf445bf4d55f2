"""A watch as a person sees it: how far it is, and Ctrl-C to end it early."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from mrtuner.cli import terminal

if TYPE_CHECKING:
    from mrtuner.vacuum import Vacuum

_TICK: Final = 0.5  # [s]


def watched(dsn: str, watch: float | None, sample: tuple[str, ...]) -> tuple[Vacuum, bool]:
    """What `vacuum` finds, and whether Ctrl-C or the server's end cut its watch short."""
    from mrtuner.vacuum import Enough, vacuum

    interrupted = False

    def pause(seconds: float) -> None:
        nonlocal interrupted
        try:
            sleep(seconds)
        except KeyboardInterrupt as end:
            if end.args:  # a signal other than Ctrl-C: it asks us to go
                raise
            interrupted = True
            terminal.print_note("interrupted: what follows is what was seen until now")
            raise Enough from None

    with _shown(watch) as sleep:
        found = vacuum(dsn, watch=watch, sample=sample, sleep=pause)
    if found.picture.lost is not None:
        terminal.print_note(
            "the server ended the session: what follows is what was seen until then"
        )
    return found, interrupted or found.picture.lost is not None


@contextmanager
def _shown(watch: float | None) -> Iterator[Callable[[float], None]]:
    """A sleep that moves a bar on a terminal; elsewhere one line tells how long it takes."""
    if watch is None:
        yield time.sleep
    elif terminal.animated(sys.stderr):
        with _bar(watch) as sleep:
            yield sleep
    else:
        yield _told(watch)


def _told(watch: float) -> Callable[[float], None]:
    said = False

    def sleep(seconds: float) -> None:
        nonlocal said
        if not said:
            terminal.print_note(f"watching for {watch:,.0f} s; Ctrl-C ends it early")
            said = True
        time.sleep(seconds)

    return sleep


@contextmanager
def _bar(watch: float) -> Iterator[Callable[[float], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("  watching, Ctrl-C ends it early"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("watch", total=watch)

        def sleep(seconds: float) -> None:
            end = time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0:
                time.sleep(min(_TICK, left))
                bar.advance(task, min(_TICK, left))

        yield sleep
