"""The commands of a RUN, as far as they are joined only by &&."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final

_PIECE: Final = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|&&|[;|&()`\n]|\$\(""", re.DOTALL)

_COMMENT: Final = re.compile(r"(^|\s)#")


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """One command; it has no words if it is more than a program with its arguments."""

    text: str
    words: tuple[str, ...]

    @property
    def program(self) -> str:
        """The name of the program; empty if unknown."""
        return self.words[0].rpartition("/")[2] if self.words else ""


def commands(text: str) -> list[ShellCommand]:
    """The commands of a line.

    A list of words as JSON, or a line with a comment, counts as one command without words.

    >>> [command.text for command in commands("a 'x && y' && b; c && d")]
    ["a 'x && y'", 'b; c', 'd']
    >>> [command.program for command in commands("/bin/a 'x && y' && b; c && d")]
    ['a', '', 'd']
    """
    if text.startswith("[") or _COMMENT.search(text):
        return [ShellCommand(text, ())]
    pieces: list[str] = []
    start = depth = 0
    for match in _PIECE.finditer(text):
        depth += {"(": 1, "$(": 1, ")": -1}.get(match[0], 0)
        if match[0] == "&&" and not depth:
            pieces.append(text[start : match.start()])
            start = match.end()
    return [_command(piece.strip()) for piece in [*pieces, text[start:]]]


def _command(text: str) -> ShellCommand:
    if any(match[0] in _MORE for match in _PIECE.finditer(text)):
        return ShellCommand(text, ())
    try:
        return ShellCommand(text, tuple(shlex.split(text)))
    except ValueError:
        return ShellCommand(text, ())


#: What makes a text more than one command.
_MORE: Final = frozenset({";", "|", "&", "(", ")", "`", "\n", "$("})
