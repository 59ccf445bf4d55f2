"""Streams and terminals: documents on stdout, notes and questions on stderr."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from signal import SIGHUP, SIGTERM
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

import click

from mrtuner.errors import MrTunerError, Refused
from mrtuner.escape import printable, printable_json

if TYPE_CHECKING:
    from pathlib import Path

    from mrtuner.documents import Document
    from mrtuner.present.text import Look

    Told = TypeVar("Told", bound=Document | dict[str, Any])

#: The width of lines where the output is not a terminal.
WIDTH: Final = 100


def print_line(text: str = "") -> None:
    """Print a line of the result to stdout; unsafe text in it is escaped."""
    click.echo(line(text))


def print_lines(lines: Iterable[str]) -> None:
    for text in lines:
        print_line(text)


def print_note(text: str = "") -> None:
    """Print a line for the user, not for a program, to stderr; unsafe text in it is escaped."""
    click.echo(line(text), err=True)


def print_notes(lines: Iterable[str]) -> None:
    for text in lines:
        print_note(text)


def line(text: str) -> str:
    """Return a line that is safe to print: its only escape sequences are our own colours.

    Names, statements and messages from a server may contain anything, see `escape`.
    """
    parts = _COLOURED.split(text)
    return "".join(part if part in _OURS else printable(part) for part in parts)


def print_error(message: str, hint: str | None) -> None:
    paint = _paint if colourful(sys.stderr) else _plain
    print_note(f"{paint('error:', 'error')} {message}")
    if hint:
        print_note(f"{paint('HINT:', 'heading')} {hint}")


def document(data: Document | dict[str, Any]) -> None:
    click.echo(as_json(data), nl=False)


def answer(told: Document | dict[str, Any], lines: Iterable[str], as_json: bool) -> None:
    """Print a command's result to stdout: its JSON document, or `lines` of text."""
    if as_json:
        document(told)
    else:
        print_lines(lines)


def as_json(data: Document | dict[str, Any]) -> str:
    import json

    if not isinstance(data, dict):
        from mrtuner.documents import as_builtins

        data = as_builtins(data)
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return printable_json(text)


def save(path: Path, text: str) -> None:
    """Write a file atomically: the old one stays until the new one is complete."""
    from mrtuner import files

    try:
        files.replace(path, text, durable=False)
    except OSError as error:
        raise MrTunerError(
            f"cannot write {path}: {error.strerror}", "Name another file."
        ) from error


def deliver(text: str, path: Path | None) -> None:
    """Write a command's result to stdout, or to the file that -o names."""
    if path is None:
        click.echo(text, nl=False)
    else:
        save_and_tell(path, text)


def answer_and_page(
    told: Told,
    lines: Callable[[Told], Iterable[str]],
    page: Callable[[Told], str],
    as_json: bool,
    html: Path | None,
) -> None:
    """Print a result like `answer`, and write its page to the file that --html names."""
    answer(told, lines(told), as_json)
    if html is not None:
        save_and_tell(html, page(told))


def save_and_tell(path: Path, text: str) -> None:
    save(path, text)
    print_note(f"written: {path}")


def make_directory(path: Path) -> None:
    """Create a directory for our output if it does not exist."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MrTunerError(
            f"cannot create {path}: {error.strerror}", "Name another directory."
        ) from error


def colourful(stream: TextIO) -> bool:
    """Whether to use colour: on a terminal that is not dumb, and without NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def animated(stream: TextIO) -> bool:
    """Whether a line on this stream can be redrawn."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width(stream: TextIO) -> int:
    """How many columns a line on this stream may have."""
    import shutil

    return shutil.get_terminal_size((WIDTH, 24)).columns if stream.isatty() else WIDTH


def look(stream: TextIO) -> Look:
    """How to format text for people on this stream."""
    from mrtuner.present.text import Look

    blocks = (stream.encoding or "").lower().replace("-", "").startswith("utf")
    return Look(
        width=width(stream), bar="█" if blocks else "#", paint=_paint if colourful(stream) else None
    )


def _plain(text: str, _style: str) -> str:
    return text


def _paint(text: str, style: str) -> str:
    coloured = click.style(printable(text), **_STYLES[style])
    _OURS.add(coloured)
    return coloured


#: Texts that we coloured. Other coloured text, such as a name, is escaped unless identical.
_OURS: Final[set[str]] = set()
_COLOURED: Final = re.compile(r"((?:\x1b\[\d+m)+[^\x1b]*\x1b\[0m)")


_STYLES: Final[dict[str, dict[str, Any]]] = {
    "heading": {"bold": True},
    "error": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow"},
    "quiet": {"dim": True},
}


def is_interactive() -> bool:
    """Whether somebody can read and answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str, *, yes: bool) -> None:
    """Return if the user agrees, here or by --yes. Refused without a terminal."""
    if yes:
        return
    if not is_interactive():
        raise Refused(
            "cannot ask for confirmation: not a terminal",
            "Check the plan above, then use --yes.",
        )
    if not click.confirm(printable(question), default=False, err=True):
        raise MrTunerError("not confirmed, so nothing was done")


def confirm_offer(question: str, *, yes: bool) -> bool:
    """Whether the user accepts an offer, here or by --yes; False without a terminal."""
    if yes:
        return True
    if not is_interactive():
        print_note("use --yes to do it")
        return False
    return click.confirm(question, default=False, err=True)


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do what Ctrl-C does: unwind, restore, then exit."""
    before = {number: signal.signal(number, _interrupt) for number in (SIGTERM, SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(f"signal {number}")
