"""Small pieces of English: numbers with their nouns, enumerations, the beginning of a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal


def plural(number: int, noun: str) -> str:
    """A number with its noun, regular plurals only.

    >>> plural(1, "setting"), plural(2000, "setting")
    ('1 setting', '2,000 settings')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def plural_was(number: int, noun: str) -> str:
    """A number with its noun and verb.

    >>> plural_was(1, "block"), plural_was(2, "block")
    ('1 block was', '2 blocks were')
    """
    return f"{plural(number, noun)} {'was' if number == 1 else 'were'}"


def enumerated(items: Iterable[object], word: Literal["and", "or"] = "and") -> str:
    """The items as a sentence lists them; empty without any.

    >>> enumerated(["memory", "CPUs", "storage"]), enumerated([5, 6], "or"), enumerated(["one"])
    ('memory, CPUs and storage', '5 or 6', 'one')
    """
    *others, last = [str(item) for item in items] or [""]
    return f"{', '.join(others)} {word} {last}" if others else last


def first_few(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are.

    >>> first_few(["a", "b", "c", "d"], 2), first_few(["a", "b"], 2)
    ('a, b and 2 more', 'a, b')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def as_name(*parts: str) -> str:
    """Return a name of others within a sentence: in quotation marks, unless it is a plain word.

    >>> as_name("nightly-import"), as_name("public", "x; DROP TABLE t; --")
    ('nightly-import', 'public."x; DROP TABLE t; --"')
    """
    return ".".join(
        one if re.fullmatch(r"[\w.:@/-]+", one) else '"' + one.replace('"', '""') + '"'
        for one in parts
    )


def cut(text: str, most: int) -> str:
    """The text, shortened to at most this many characters with an ellipsis.

    >>> cut("SELECT", 6), cut("SELECT 1", 6)
    ('SELECT', 'SELEC…')
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def first_line(said: str) -> str:
    """The first line of what a program said before it failed.

    >>> first_line("cp: no space left\\ncp: giving up\\n"), first_line(" ")
    ('cp: no space left', 'no reason given')
    """
    return (said.strip().splitlines() or ["no reason given"])[0]


def last_line(said: str) -> str:
    """The last line of what a program said before it failed.

    >>> last_line("cp: no space left\\ncp: giving up\\n"), last_line(" ")
    ('cp: giving up', 'no reason given')
    """
    return (said.strip().splitlines() or ["no reason given"])[-1].strip()


def first_upper(text: str) -> str:
    """The text as the beginning of a sentence.

    Unlike str.capitalize, it leaves names such as JIT alone.

    >>> first_upper("with JIT")
    'With JIT'
    """
    return text[:1].upper() + text[1:]


def not_judged(name: str, why: str, supply: str | None) -> str:
    """The line that says what was not judged; each answer begins with these.

    >>> not_judged("throughput", "no metric of writes is there", None)
    'not judged: throughput: no metric of writes is there'
    >>> not_judged("throughput", "it was not read", "Run it there."), not_judged("io", "?", "--io")
    ('not judged: throughput: it was not read. Run it there.', 'not judged: io: ?; --io')
    """
    mark = "." if supply and supply[0].isupper() else ";"
    return f"not judged: {name}: {why}{f'{mark} {supply}' if supply else ''}"
