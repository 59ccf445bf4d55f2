"""What a container starts: the commands of its command line, as a shell would read them.

Written for what images really start: a shell with a script, `exec`, assignments before a command,
wrappers (`bundle exec`, `tini --`), several programs, of which some run in the background.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash", "zsh", "ksh"})
_SCRIPT: Final = re.compile(r"-[a-z]*c[a-z]*")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
#: Words before a program that change nothing about it; `env` takes assignments as well.
_PREFIXES: Final = frozenset({"exec", "env", "nohup", "command", "time", "then", "do", "else", "{"})
#: Programs that start what another file lists.
_MANAGERS: Final = frozenset({
    "foreman", "honcho", "overmind", "hivemind", "supervisord", "s6-svscan", "runsvdir", "circusd",
    "pm2", "pm2-runtime", "forego",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ContainerCommand:
    """A program with its arguments, and the variables that are set for it alone."""

    words: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    background: bool = False  # it goes on while the next one runs

    @property
    def programs(self) -> tuple[str, ...]:
        """Every word without its directory."""
        return tuple(word.rpartition("/")[2] for word in self.words)

    @property
    def manager(self) -> str | None:
        """The program that starts what another file lists, if this is one."""
        return next((one for one in self.programs[:3] if one in _MANAGERS), None)


def commands(words: Sequence[str]) -> tuple[ContainerCommand, ...]:
    """Return the commands of a command line, in their order.

    >>> [one.words for one in commands(["sh", "-c", "rake db:migrate && exec puma -w 2"])]
    [('rake', 'db:migrate'), ('puma', '-w', '2')]
    >>> commands(["sh", "-c", "sidekiq & puma"])[0].background
    True
    """
    if (script := _script(words)) is not None:
        return tuple(_of_script(script))
    if len(words) == 1 and " " in words[0]:
        return tuple(_of_script(words[0]))
    plain: list[str] = []
    for word in words:
        plain += split(word) if " " in word else [word]
    return (_command(plain),) if plain else ()


def at_once(found: Sequence[ContainerCommand]) -> tuple[ContainerCommand, ...]:
    """Return the commands that run at the same time in the end: the last, and the background."""
    return tuple(
        one for number, one in enumerate(found) if one.background or number == len(found) - 1
    )


def _script(words: Sequence[str]) -> str | None:
    """The script of a shell on the command line."""
    for place, word in enumerate(words[:-2]):
        if word.rpartition("/")[2] in _SHELLS:
            for after, option in enumerate(words[place + 1 : -1], place + 1):
                if _SCRIPT.fullmatch(option):
                    return words[after + 1]
                if not option.startswith("-"):
                    break
    return None


def _of_script(script: str) -> Iterator[ContainerCommand]:
    text = script.replace("\\\n", " ").replace("\n", " ; ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for token in lexer:
            if token.strip(";&|"):
                words.append(token)
                continue
            if words:
                yield from _inner(words, background=token.strip() == "&")
            words = []
    except ValueError:  # an open quote
        words = text.split()
    if words:
        yield from _inner(words, background=False)


def _inner(words: list[str], *, background: bool) -> Iterator[ContainerCommand]:
    """A command of a script, or those of a shell that it starts."""
    if _script(words) is not None:
        yield from commands(words)
    else:
        made = _command(words)
        yield ContainerCommand(made.words, made.variables, background)


def _command(words: Sequence[str]) -> ContainerCommand:
    rest, variables = list(words), {}
    while rest:
        if match := _ASSIGNMENT.fullmatch(rest[0]):
            variables[match[1]] = match[2]
        elif rest[0] not in _PREFIXES:
            break
        rest.pop(0)
    return ContainerCommand(tuple(rest), variables)


def split(text: str) -> list[str]:
    """Return the words of a text, also where a quote is left open."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # an open quote
        return text.split()
