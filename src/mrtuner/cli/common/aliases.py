"""Option spellings of the last version: they still work, with a warning, but no help shows them.

The next version drops them: remove a line of `OLD`, and the spelling is gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from mrtuner.cli.common.terminal import print_note

if TYPE_CHECKING:
    import click


class Old(NamedTuple):
    """An option's old spelling, and what replaces it."""

    command: str  # without mrtuner; the commands of rdstune begin with rds
    spelling: str
    now: str  # another option, a verb of the command, or an argument in capitals
    values: Collection[str] = ()  # only these values moved to the other option; empty: all

    @property
    def is_argument(self) -> bool:
        """Whether the value is given without an option."""
        return self.now.isupper()

    @property
    def is_verb(self) -> bool:
        """Whether a flag became a verb."""
        return not self.is_argument and not self.now.startswith("-")

    @property
    def warning(self) -> str:
        """The line that names the new spelling."""
        now = self.now if self.now.startswith("-") else f"mrtuner {self.command} {self.now}"
        return f"warning: {self.spelling} is now {now}; the next version removes the old name"

    def means(self, values: Collection[str]) -> bool:
        """Whether the option moved, given the values that follow it."""
        return not self.values or bool(set(values) & set(self.values))


OLD: Final = (
    Old("cpu", "--report", "--html"),
    Old("cpu", "--sql", "DSN"),
    Old("prove", "--report", "--html"),
    Old("prove", "--workload", "--load", ("tpcb", "select", "simple-update")),
    Old("prove", "--for", "--workload"),
    Old("vacuum", "--report", "--html"),
    Old("vacuum", "--apply", "apply"),
    Old("vacuum", "--undo", "undo"),
    Old("rotate", "--status", "status"),
    Old("rotate", "--abort", "abort"),
    Old("rotate", "--group", "--role"),
    Old("rotate", "--quiet", "--idle"),
    Old("limits", "--metrics", "TARGET"),
    Old("limits", "-o", "--html"),
    Old("limits", "--output", "--html"),
    Old("limits", "--storage", "--volume"),
    Old("failover lab", "--report", "--html"),
    Old("failover rehearse", "--report", "--html"),
    Old("failover rehearse", "--for", "--timeout"),
    Old("failover rehearse", "--quiet", "--start-timeout"),
    Old("failover settings", "--for", "--stack"),
    Old("rds show", "--report", "--html"),
    Old("rds show", "--storage", "--disk"),
    Old("rds render", "--storage", "--disk"),
    Old("rds diff", "--dsn", "--connect"),
    Old("rds apply", "--dsn", "--connect"),
    Old("rds evaluate", "--dsn", "--connect"),
    Old("rds evaluate", "--storage", "--allocated-storage"),
    Old("rds maintenance rehearse", "--dsn", "--connect"),
    Old("rds maintenance rehearse", "--apply", "--action"),
    Old("rds maintenance rehearse", "--report", "--html"),
    Old("rds maintenance rehearse", "--quiet", "--start-timeout"),
    Old("rds snapshots copy", "--from", "--from-region"),
    Old("rds snapshots copy", "--to", "--to-region"),
    Old("rds policy", "--from", "--from-region"),
    Old("rds policy", "--to", "--to-region"),
    Old("demo", "-o", "--dir"),
    Old("demo", "--output", "--dir"),
    Old("bench run", "-o", "--dir"),
    Old("bench run", "--output", "--dir"),
    Old("bench compare", "-o", "--dir"),
    Old("bench compare", "--output", "--dir"),
    Old("bench compare", "--workload", "--load"),
)


def path_of(parent: click.Context | None, name: str | None) -> str:
    """Return the words that call a command, without the program: ``rds show`` for both programs."""
    names = [name]
    while parent is not None and parent.parent is not None:
        names.insert(0, parent.info_name)
        parent = parent.parent
    if parent is not None and parent.command.name == "rdstune":
        names.insert(0, "rds")
    return " ".join(word for word in names if word)


def respelled(
    path: str, words: Sequence[str], parameters: Sequence[click.Parameter], *, warns: bool
) -> tuple[str | None, list[str]]:
    """Return the verb that an old flag stood for, or None, and the words in today's spelling.

    Of two such flags the second is left unchanged: the verb has no option of that name.
    """
    known = {one.spelling: one for one in OLD if one.command == path}
    valued = _with_values(parameters)
    valued |= {one.spelling for one in known.values() if one.is_argument or one.now in valued}
    verb: str | None = None
    made: list[str] = []
    end = words.index("--") if "--" in words else len(words)
    for name, *values in _options(words[:end], known, valued):
        one = known.get(name)
        if one is None or not one.means(values) or (one.is_verb and verb):
            made += [name, *values]
            continue
        if warns:
            print_note(one.warning)
        if one.is_verb:
            verb = one.now
        else:
            made += values if one.is_argument else [one.now, *values]
    return verb, [*made, *words[end:]]


def _options(
    words: Sequence[str], known: Collection[str], valued: Collection[str]
) -> Iterator[list[str]]:
    """Yield each option with its value, and each argument."""
    left = deque(words)
    while left:
        word = left.popleft()
        parts = _parted(word, known)
        yield [*parts, left.popleft()] if parts == [word] and word in valued and left else parts


def _with_values(parameters: Sequence[click.Parameter]) -> set[str]:
    """Return the options whose next word is their value, even if it looks like an option."""
    return {
        name
        for one in parameters
        if one.param_type_name == "option" and one.nargs == 1
        if not (getattr(one, "is_flag", False) or getattr(one, "count", False))
        for name in one.opts
    }


def _parted(word: str, known: Collection[str]) -> list[str]:
    """Split ``--report=x`` and ``-ox`` in two if they are old spellings."""
    name, equals, value = word.partition("=")
    if equals and name in known:
        return [name, value]
    if not word.startswith("--") and word[:2] in known and word[2:]:
        return [word[:2], word[2:]]
    return [word]
