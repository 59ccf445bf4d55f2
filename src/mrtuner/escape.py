"""Text that others chose, made safe to show: names, statements and messages of a server.

A table may be named with an escape sequence, a line break or a mark that turns the direction of
writing. Printed as it is, it would clear the screen, forge a line of ours, or show one name and
mean another. Documents and files that a program reads keep every name as it is.
"""

from __future__ import annotations

import re
from typing import Final

#: What moves the cursor, breaks a line, turns the direction of writing, or is not seen at all. The
#: joiners (U+200C, U+200D), combining marks and variation selectors stay: words need them.
_UNSAFE: Final = (
    r"\x7f-\x9f"  # DEL and C1: some terminals take one of these for ESC [
    r"\u00ad\u061c\u180e\u200b\u200e\u200f"  # soft hyphen, marks of direction, no width at all
    r"\u2028-\u202e"  # line and paragraph separators, embeddings, overrides
    r"\u2060-\u206f\ufeff\ufff9-\ufffb"  # isolates, invisible operators, byte order mark
    r"\ud800-\udfff"  # half a pair: no encoding takes it
    r"\U000e0000-\U000e007f"  # tags
)
_SHOWN: Final = re.compile(rf"[\x00-\x1f{_UNSAFE}]")
_SHOWN_IN_LINES: Final = re.compile(rf"[\x00-\x08\x0b-\x1f{_UNSAFE}]")
_IN_JSON: Final = re.compile(f"[{_UNSAFE}]")


def printable(text: str, *, lines: bool = False) -> str:
    r"""The text on one line of visible characters; the others as Python writes them.

    With `lines` its line breaks and tabs are kept: a page shows them as spaces.

    >>> printable("größe 表 جدول"), printable("a\x1b[2J\nb\u202e")
    ('größe 表 جدول', 'a\\x1b[2J\\nb\\u202e')
    """
    return (_SHOWN_IN_LINES if lines else _SHOWN).sub(_as_python, text)


def printable_json(text: str) -> str:
    r"""A document of JSON that shows nothing else than it holds; what it holds is the same.

    `json` itself escapes C0 only. Outside of its strings there is nothing to escape.

    >>> printable_json('{"name": "a\u202eb"}')
    '{"name": "a\\u202eb"}'
    """
    import json

    return _IN_JSON.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _as_python(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
