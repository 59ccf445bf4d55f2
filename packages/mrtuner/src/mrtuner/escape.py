"""Text from others, made safe to show: names, statements and messages of a server.

A table name may contain an escape sequence, a line break or a character that changes the writing
direction. Printed unchanged, it could clear the screen, forge a line of our output, or show one
name and mean another. Documents and files for programs keep every name unchanged.
"""

from __future__ import annotations

import re
from typing import Final

#: What moves the cursor, breaks a line, changes the writing direction, or is invisible. Joiners
#: (U+200C, U+200D), combining marks and variation selectors are allowed: words need them.
_UNSAFE: Final = (
    r"\x7f-\x9f"  # DEL and C1: some terminals take one of these for ESC [
    r"\u00ad\u061c\u180e\u200b\u200e\u200f"  # soft hyphen, marks of direction, no width at all
    r"\u2028-\u202e"  # line and paragraph separators, embeddings, overrides
    r"\u2060-\u206f\ufeff\ufff9-\ufffb"  # isolates, invisible operators, byte order mark
    r"\ud800-\udfff"  # half a surrogate pair: no encoding accepts it
    r"\U000e0000-\U000e007f"  # tags
)
_SHOWN: Final = re.compile(rf"[\x00-\x1f{_UNSAFE}]")
_SHOWN_IN_LINES: Final = re.compile(rf"[\x00-\x08\x0b-\x1f{_UNSAFE}]")
_IN_JSON: Final = re.compile(f"[{_UNSAFE}]")


def printable(text: str, *, lines: bool = False) -> str:
    r"""Return the text on one line of visible characters; others as Python escapes.

    With `lines`, line breaks and tabs are kept; a page shows them as spaces.

    >>> printable("größe 表 جدول"), printable("a\x1b[2J\nb\u202e")
    ('größe 表 جدول', 'a\\x1b[2J\\nb\\u202e')
    """
    return (_SHOWN_IN_LINES if lines else _SHOWN).sub(_as_python, text)


def damaged(text: str) -> bool:
    """Whether bytes of it were no text: in SQL, it may be the name of something else."""
    return "\ufffd" in text


def printable_json(text: str) -> str:
    r"""Return a JSON document that displays only what it contains; the content is unchanged.

    `json` itself escapes only C0. Outside its strings there is nothing to escape.

    >>> printable_json('{"name": "a\u202eb"}')
    '{"name": "a\\u202eb"}'
    """
    import json

    return _IN_JSON.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _as_python(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
