"""Names and strings as they stand in SQL that a person reads, or runs."""

from __future__ import annotations

from mrtuner.escape import printable


def quoted(*name: str) -> str:
    """Return a name, quoted part by part, as to_regclass() reads it, too.

    >>> quoted("shop", 'odd"name')
    '"shop"."odd""name"'
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in name)


def identifier(name: str) -> str:
    r"""Return the quoted name, with unprintable characters as code points.

    >>> identifier('odd"name'), identifier("a\nb")
    ('"odd""name"', 'U&"a\\000Ab"')
    """
    if printable(name) == name:
        return quoted(name)
    return "U&" + _by_code(quoted(name).replace("\\", "\\\\"), "\\{:04X}", "\\+{:06X}")


def literal(text: str) -> str:
    """Return a quoted string, with unprintable characters as code points.

    >>> literal("it's"), literal("a\\nb")
    ("'it''s'", "E'a\\\\u000ab'")
    """
    doubled = text.replace("'", "''")
    if printable(text) == text:
        return f"'{doubled}'"
    return "E'" + _by_code(doubled.replace("\\", "\\\\"), "\\u{:04x}", "\\U{:08x}") + "'"


def regclass(*name: str) -> str:
    """Return a relation's OID in SQL; a regclass understands no U&."""
    return f"{literal(quoted(*name))}::regclass"


def _by_code(text: str, short: str, long: str) -> str:
    return "".join(
        one if printable(one) == one else (short if one <= "\uffff" else long).format(ord(one))
        for one in text
    )
