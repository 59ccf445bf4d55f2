"""What a Python distribution requires, according to its metadata.

Source: Core metadata specifications, Requires-Dist; PEP 508; PEP 503 for names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

#: A name with extras and versions, without an address; after a semicolon, its condition.
_REQUIREMENT: Final = re.compile(
    r"(?P<what>(?P<name>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*(?:\[[\w., -]*\])?"
    r"\s*[\w.,<>=!~*+ ()-]*)"
    r"(?:;\s*(?P<when>[\w\s.<>=!~\"'()]+))?"
)
_EXTRA: Final = re.compile(
    r"(?:(?P<more>.*\S)\s+and\s+)?\(?extra\s*==\s*[\"'](?P<name>[\w.-]+)[\"']\)?"
)


def required(told: Iterable[str], extras: Collection[str] = ()) -> list[str] | None:
    """Return what has to be installed with these extras; None if an entry cannot be parsed.

    Conditions other than an extra stay with their requirement, in the form that pip accepts.

    >>> required(["click>=8.1", "duckdb; extra == 'history'", "moto; extra == 'lab'"], ["history"])
    ['click>=8.1', 'duckdb']
    >>> required(["tomli; python_version < '3.11'", "x @ file:///x"]) is None
    True
    """
    wanted = {normalized(one) for one in extras}
    found: list[str] = []
    for text in told:
        match = _REQUIREMENT.fullmatch(text.strip())
        if match is None:
            return None
        when = (match["when"] or "").strip().replace("'", '"')
        if "extra" in when:
            of = _EXTRA.fullmatch(when)
            if of is None or "extra" in (of["more"] or "") or " or " in (of["more"] or ""):
                return None
            if normalized(of["name"]) not in wanted:
                continue
            when = of["more"] or ""
        what = match["what"].strip()
        found.append(f"{what}; {when}" if when else what)
    return list(dict.fromkeys(found))


def name_of(requirement: str) -> str:
    """Return the normalized name of the required distribution.

    >>> name_of("Psycopg[binary]>=3.2")
    'psycopg'
    """
    match = _REQUIREMENT.fullmatch(requirement.strip())
    return normalized(match["name"] if match else requirement)


def normalized(name: str) -> str:
    """Return the name in the form in which names are compared (PEP 503).

    >>> normalized("Typing_Extensions")
    'typing-extensions'
    """
    return re.sub(r"[-_.]+", "-", name).lower()
