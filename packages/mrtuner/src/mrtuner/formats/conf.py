"""postgresql.conf: a file to include, with each reason above its setting.

Source of the notation: src/backend/utils/misc/guc-file.l.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mrtuner.errors import BadValue
from mrtuner.formats.line import Format, Line, one_line
from mrtuner.postgres.conf_file import escaped, setting_in

#: What the lexer accepts without quotes in every version. "1e-05" and "a.b" are excluded.
_BARE = re.compile(r"[+-]?[0-9]+([A-Za-z]*|\.[0-9]+)|[A-Za-z_][A-Za-z0-9_]*")


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return a file for ``include`` in postgresql.conf."""
    head = [
        f"# {one_line(title)}".rstrip(),
        "# Include this file at the end of postgresql.conf:  include 'mrtuner.conf'",
        "# Settings made with ALTER SYSTEM (postgresql.auto.conf) override it.",
    ]
    return "\n".join(row for row in head if row != "#") + "\n\n" + settings(lines)


def settings(lines: Sequence[Line]) -> str:
    """Return only the settings, each below its reason; conditional ones last, as comments."""
    plain = [_setting(line) for line in lines if not line.condition]
    return "\n".join(plain + _offered([line for line in lines if line.condition]))


def _offered(lines: Sequence[Line]) -> list[str]:
    """Return each condition once, above the settings that it allows."""
    conditions = dict.fromkeys(line.condition for line in lines)
    return [
        f"# {one_line(condition)}\n"
        + "".join(
            f"#{line.name} = {_value(line)}\n" for line in lines if line.condition == condition
        )
        for condition in conditions
    ]


def _setting(line: Line) -> str:
    reason = f"# {line.reason}\n" if line.reason else ""
    return f"{reason}{line.name} = {_value(line)}\n"


def _value(line: Line) -> str:
    if not line.quoted and _BARE.fullmatch(line.value):
        return line.value
    return f"'{escaped(line.value)}'"


def read(text: str) -> dict[str, str]:
    """Return name → value of a configuration file.

    As in PostgreSQL, the last setting wins, whatever the case of its name.
    """
    rows = (_read_row(row) for row in text.split("\n") if row.strip() and not _comment(row))
    last = {name.lower(): (name, value) for name, value in rows}
    return dict(last.values())


def _comment(row: str) -> bool:
    return row.lstrip().startswith("#")


def _read_row(row: str) -> tuple[str, str]:
    found = setting_in(row)
    if found is None:
        raise BadValue(f"cannot read the line {row!r}", "Write: name = 'value'.")
    return found


FORMAT = Format(
    name="conf",
    summary="a file to include in postgresql.conf",
    write=write,
    read=read,
    conditional=True,
)
