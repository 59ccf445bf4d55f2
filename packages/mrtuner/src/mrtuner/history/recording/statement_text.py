"""Texts of statements without their literals.

pg_stat_statements replaces the constants of statements that are planned, but not those of others
before PostgreSQL 18: a password in ALTER ROLE, a path in COPY.
"""

from __future__ import annotations

import re
from typing import Final

from mrtuner.postgres.explain import LONGER

#: Longer ones are cut: a generated list of 10,000 names says no more than its beginning.
LONGEST: Final = 10_000

#: Quoted names stay; comments may hold anything, and are removed.
_TOKEN: Final = re.compile(
    r"""(?P<name>"(?:[^"]|"")*")
      | (?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
      | (?P<dollar>(?P<tag>\$(?:[A-Za-z_\x80-\U0010ffff]\w*)?\$).*?(?:(?P=tag)|\Z))
      | (?P<parameter>\$\d+)
      | (?P<escaped>[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z))
      | (?P<string>(?:[uU]&|[bBxXnN])?'(?:[^']|'')*(?:'|\Z))
      | (?P<word>[A-Za-z_\x80-\U0010ffff][\w$]*)
      | (?P<number>(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    """,
    re.VERBOSE | re.DOTALL,
)
#: A sign after an operator is the literal's.
_SIGN: Final = re.compile(r"([=(,+*/<>-] ?)-\?")
_KEPT: Final = frozenset({"name", "parameter", "word"})
#: Longer numbers are no positions, lengths or precisions.
_SHORT: Final = 3


def normalized(text: str, *, positions: bool = False) -> str:
    """Return a statement with `?` for each literal, without comments, on one line.

    With `positions`, short whole numbers stay, as in ORDER BY 1 or numeric(10, 2).

    >>> normalized("ALTER ROLE app PASSWORD 'hunter2' -- new")
    'ALTER ROLE app PASSWORD ?'
    >>> normalized('SELECT "a b", x1 FROM t WHERE id = $1 LIMIT 10')
    'SELECT "a b", x1 FROM t WHERE id = $1 LIMIT ?'
    >>> normalized("UPDATE t SET n = n + -5 WHERE id IN (-1, 2)")
    'UPDATE t SET n = n + ? WHERE id IN (?, ?)'
    >>> normalized("SELECT /* by x */ 'a' WHERE id IN ($1 /*, ... */) ORDER BY 1", positions=True)
    'SELECT ? WHERE id IN ($1 /*, ... */) ORDER BY 1'
    """

    def replaced(match: re.Match[str]) -> str:
        short = positions and match[0].isdecimal() and len(match[0]) <= _SHORT
        return match[0] if short else _replaced(match)

    return _SIGN.sub(r"\1?", " ".join(_TOKEN.sub(replaced, text).split()))[:LONGEST]


def _replaced(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    if kind in _KEPT:
        return match[0]
    if kind == "comment":
        return LONGER if match[0] == LONGER else " "
    return "?"
