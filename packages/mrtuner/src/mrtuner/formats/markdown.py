"""Markdown: a table for an issue, a wiki or a review.

Source of the notation: the table extension of GitHub Flavored Markdown.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from mrtuner.errors import BadValue
from mrtuner.formats.line import Format, Line, one_line

#: Text that a code span shows unchanged, even inside a table.
_PLAIN = re.compile(r"[^\s`|\\]+( [^\s`|\\]+)*")
_MARKUP = re.compile(r"[\\`*\[\]<>|&]")
#: Inside <code>, Markdown still interprets its own characters, and HTML folds spaces.
_IN_CODE = re.compile(r"""[!"#&'()*+<>?@\[\\\]^_`{|}~]|(?<= ) | $|^ """)
_ROW = re.compile(r"\| (?P<name>\S+) \| (?P<value>.*?) \| (?:restart|reload) \| .*\|")


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return a table of four columns, in the given order, below the title."""
    return "\n".join(_rows(lines, one_line(title))) + "\n"


def _rows(lines: Iterable[Line], title: str) -> Iterator[str]:
    if title:
        yield _escaped(title)
        yield ""
    yield "| Parameter | Value | Takes effect | Why |"
    yield "|:--|:--|:--|:--|"
    for line in lines:
        effect = "restart" if line.restart else "reload"
        reason = _escaped(one_line(line.comment))
        yield f"| {_code(line.name)} | {_code(line.value)} | {effect} | {reason} |"


def _code(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return f"`{text}`"
    return f"<code>{_IN_CODE.sub(_reference, text)}</code>"


def _reference(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};"


def _escaped(text: str) -> str:
    return _MARKUP.sub(lambda match: "\\" + match[0], text)


def read(text: str) -> dict[str, str]:
    """Return name → value of the table; text around it is ignored."""
    found = dict(_cells(row) for row in text.split("\n") if row.startswith(("| `", "| <code>")))
    if not found and "| Parameter | Value |" not in text:
        raise BadValue("no table of parameters in this text")
    return found


def _cells(row: str) -> tuple[str, str]:
    match = _ROW.fullmatch(row)
    if match is None:
        raise BadValue(f"cannot read the table row {row!r}")
    return _decoded(match["name"]), _decoded(match["value"])


def _decoded(cell: str) -> str:
    if cell.startswith("`"):
        return cell[1:-1]
    return html.unescape(cell.removeprefix("<code>").removesuffix("</code>"))


FORMAT = Format(name="markdown", summary="a Markdown table", write=write, read=read)
