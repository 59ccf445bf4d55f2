"""A watch that shows its progress and that Ctrl-C ends early."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.cli.common import exit_codes, progress, terminal

if TYPE_CHECKING:
    from mrtuner.vacuum import Vacuum

_TICK: Final = 0.5  # [s]


def watched(
    dsn: str, watch: float | None, sample: tuple[str, ...], *, long: float | None = None,
    history: Path | None = None, instance: str | None = None,
) -> tuple[Vacuum, int]:  # fmt: skip
    """Return what `vacuum` finds, and the exit code: Ctrl-C or the server may end a watch early."""
    from mrtuner.answers import vacuum
    from mrtuner.vacuum import Enough

    code = exit_codes.DONE

    def pause(seconds: float) -> None:
        nonlocal code
        try:
            sleep(seconds)
        except KeyboardInterrupt as end:
            if end.args:  # a signal other than Ctrl-C: it asks us to exit
                raise
            code = exit_codes.INTERRUPTED
            terminal.print_note("interrupted: the results below are from before that")
            raise Enough from None

    with _shown(watch) as sleep:
        found = vacuum(
            dsn, watch=watch, sample=sample, sleep=pause, long=long,
            history=history, instance=instance,
        )  # fmt: skip
    if found.picture.lost is not None:
        terminal.print_note("the server ended the session: the results below are from before that")
        code = code or exit_codes.UNFINISHED
    return found, code


@contextmanager
def _shown(watch: float | None) -> Iterator[Callable[[float], None]]:
    """Yield a sleep function that shows how far the watch is."""
    if watch is None:
        yield time.sleep
        return
    with progress.bar() as shown:
        began = time.monotonic()

        def sleep(seconds: float) -> None:
            shown.line(f"watching for {watch:,.0f} s; Ctrl-C ends it early")
            end = time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0:
                shown.move(time.monotonic() - began, watch, "Ctrl-C ends it early")
                time.sleep(min(_TICK, left))

        yield sleep
