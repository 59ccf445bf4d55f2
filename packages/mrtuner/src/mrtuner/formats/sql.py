"""SQL: one ALTER SYSTEM statement per setting, then a reload.

ALTER SYSTEM writes postgresql.auto.conf immediately and outside transactions. Source: guc_funcs.c,
flatten_set_variable_args; guc.c, AlterSystemSetConfigFile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mrtuner.errors import BadValue
from mrtuner.formats.line import Format, Line, items, listing, one_line, restarts
from mrtuner.postgres.conf_file import LIST_QUOTED
from mrtuner.postgres.model import RELOAD

_LITERAL = r"(?:E'(?:[^'\\]|''|\\.)*'|'(?:[^']|'')*')"
_STATEMENT = re.compile(
    rf"ALTER SYSTEM SET (?P<name>[A-Za-z_][\w$.]*) = (?P<arguments>{_LITERAL}(?:, {_LITERAL})*);"
)


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return a script for psql, for a superuser or a role with ALTER SYSTEM on the parameters."""
    of_libraries = [line for line in lines if "." in line.name]
    parts = [
        _comment(title),
        *(_statement(line) for line in lines if "." not in line.name),
        *_last(of_libraries),
        RELOAD,
        *(_comment(note) for note in restarts(lines, "Restart the server for")),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _last(lines: Sequence[Line]) -> Iterator[str]:
    """Yield libraries' settings: before 16 the server knows them only when they are loaded."""
    if lines:
        yield _comment("Settings of libraries: run these again once the library is loaded.")
    yield from (_statement(line) for line in lines)


def _comment(text: str) -> str:
    return f"-- {one_line(text)}" if text.strip() else ""


def _statement(line: Line) -> str:
    reason = f"-- {line.reason}\n" if line.reason else ""
    return f"{reason}ALTER SYSTEM SET {line.name} = {_arguments(line)};"


def _arguments(line: Line) -> str:
    if line.name not in LIST_QUOTED:
        return _literal(line.value)
    if not line.value.strip():
        raise BadValue(
            f"ALTER SYSTEM cannot set {line.name} to an empty list",
            f"Use ALTER SYSTEM RESET {line.name}.",
        )
    return ", ".join(_literal(item) for item in items(line.value))


def _literal(text: str) -> str:
    """Return a literal that does not depend on standard_conforming_strings."""
    body = text.replace("'", "''")
    return "E'" + body.replace("\\", "\\\\") + "'" if "\\" in text else f"'{body}'"


def read(text: str) -> dict[str, str]:
    """Return name → value of a script that `write` made; other statements are refused."""
    rows = (row.strip() for row in text.split("\n"))
    return dict(_read_row(row) for row in rows if row and row != RELOAD and row[:2] != "--")


def _read_row(row: str) -> tuple[str, str]:
    match = _STATEMENT.fullmatch(row)
    if match is None:
        raise BadValue(f"cannot read the statement {row!r}", "Write: ALTER SYSTEM SET name = '…';")
    name = match["name"]
    values = [_unquoted(literal) for literal in re.findall(_LITERAL, match["arguments"])]
    return name, listing(values) if name in LIST_QUOTED else values[0]


def _unquoted(literal: str) -> str:
    if literal.startswith("E"):
        return re.sub(r"''|\\(.)", lambda match: match[1] or "'", literal[2:-1])
    return literal[1:-1].replace("''", "'")


FORMAT = Format(
    name="sql", summary="ALTER SYSTEM statements and a reload", write=write, read=read
)  # fmt: skip
