"""One setting to be written to a file, with what every format needs to know about it."""

from __future__ import annotations

import csv
import re
import textwrap
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mrtuner.errors import BadValue

#: A condition that formats for Linux meet: up to 17 reading ahead needs posix_fadvise, which macOS
#: and Windows lack.
LINUX: Final = "Only if the server runs on Linux or FreeBSD: others refuse it"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)*")
#: Control characters, lone surrogates, line and paragraph separators.
_WIDTH = 96
_BREAKING = ("Cc", "Cs", "Zl", "Zp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A parameter, its value and the reason for it.

    The value is unquoted text in PostgreSQL's notation: ``4GB``, ``0.9``, ``on``,
    ``pg_stat_statements``. Lists are written as PostgreSQL shows them: ``a, b``.
    """

    name: str
    value: str
    quoted: bool  # a string or list parameter, whose value is always quoted
    comment: str  # the reason, one line
    restart: bool
    condition: str = ""  # when it may be used: a format comments it out or omits it

    @property
    def reason(self) -> str:
        """The comment as one printable line, marked where a restart is needed."""
        return one_line(f"{self.comment} (restart)" if self.restart else self.comment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A way to write settings, and its inverse."""

    name: str
    summary: str  # one line for --help
    write: Callable[[Sequence[Line], str], str]  # lines and a title
    read: Callable[[str], dict[str, str]]  # raises BadValue
    conditional: bool = False  # accepts conditional lines, and comments them out
    container: bool = False  # for servers on Linux, on volumes that MrTuner cannot see
    linux: bool = False  # for servers that run on Linux
    orders_standbys: bool = False  # what applies it gives standbys their settings in time
    standbys: str = "standbys"  # the servers that somebody has to set, by the platform's name


def checked(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines if every format can express them; otherwise raise BadValue.

    ALTER SYSTEM cannot set a value with a line break.
    Source: guc.c, AlterSystemSetConfigFile.
    """
    seen: set[str] = set()
    for line in lines:
        if not _NAME.fullmatch(line.name):
            raise BadValue(
                f"{line.name!r} is not the name of a parameter",
                "Use the name that pg_settings shows.",
            )
        if any(unicodedata.category(character) in _BREAKING for character in line.value):
            raise BadValue(
                f"the value of {line.name} holds a line break or control character",
                "Write the value on one line.",
            )
        refuse_second(line.name, seen)
    return lines


def refuse_second(name: str, seen: set[str]) -> None:
    """Raise BadValue if a parameter was seen before; otherwise add it to `seen`."""
    if name.lower() in seen:
        raise BadValue(f"{name} is set twice", "Give each parameter once.")
    seen.add(name.lower())


def divide(lines: Iterable[Line], owned: Collection[str]) -> tuple[list[Line], list[Line]]:
    """Split the lines into those to write and those whose parameter someone else owns."""
    ours: list[Line] = []
    theirs: list[Line] = []
    for line in lines:
        (theirs if line.name in owned else ours).append(line)
    return ours, theirs


def known(name: str, formats: Collection[str]) -> str:
    """Return the name of a format if it is among these, or raise BadValue."""
    if name not in formats:
        raise BadValue(f"unknown format {name!r}", f"Known formats: {', '.join(formats)}.")
    return name


def one_line(text: str) -> str:
    """Return text fit for a comment: on one line, all printable."""
    return "".join(character for character in " ".join(text.split()) if character.isprintable())


def items(value: str) -> list[str]:
    """Return the items of a list parameter.

    >>> items('pg_stat_statements, "odd,name"')
    ['pg_stat_statements', 'odd,name']
    """
    found = [item.strip() for row in csv.reader([value], skipinitialspace=True) for item in row]
    if not all(found):
        raise BadValue(f"list {value!r} has an empty item", "Separate items with one comma.")
    return found


def listing(found: Iterable[str]) -> str:
    """Join items as PostgreSQL shows a list; the inverse of `items`."""
    return ", ".join(_item(item) for item in found)


def _item(item: str) -> str:
    plain = item == item.strip() and not set(item) & set(',"')
    return item if plain else '"' + item.replace('"', '""') + '"'


def restarts(lines: Iterable[Line], how: str) -> list[str]:
    """Return the note on parameters that wait for a restart, after the words that say how."""
    names = [line.name for line in lines if line.restart]
    return [f"{how}: {', '.join(names)}"] if names else []


def comments(notes: Iterable[str]) -> str:
    wrapper = textwrap.TextWrapper(
        _WIDTH, initial_indent="# ", subsequent_indent="# ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return "".join(f"{row}\n" for note in notes for row in wrapper.wrap(one_line(note)))
