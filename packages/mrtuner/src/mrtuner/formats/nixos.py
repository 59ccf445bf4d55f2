"""NixOS: a module that sets ``services.postgresql.settings``.

Every value is a string. The module puts strings between single quotes and doubles quotes in them,
but keeps backslashes, which postgresql.conf reads as escapes; so they are doubled here. Source:
nixpkgs 25.11, nixos/modules/services/databases/postgresql.nix; Nix manual, "String literal".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from mrtuner.errors import BadValue
from mrtuner.formats.line import Format, Line, comments, divide
from mrtuner.formats.manifest import left_out

#: Set by the module itself with the same priority as ours: a second value is a conflict.
OWNED: Final = frozenset({"hba_file", "ident_file", "listen_addresses", "log_destination"})
_PATH: Final = "services.postgresql.settings"
_BARE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_'-]*")
_TEXT: Final = r'"(?:[^"\\$]|\\.|\$(?!\{))*"'
_BLOCK: Final = re.compile(
    rf"{re.escape(_PATH)}\s*=\s*\{{(?P<body>(?:[^{{}}\"]|{_TEXT})*)\}}\s*;", re.S
)
_SETTING: Final = re.compile(
    rf"\s*(?:(?P<bare>{_BARE.pattern})|(?P<quoted>{_TEXT}))\s*=\s*"
    rf"(?:(?P<text>{_TEXT})|(?P<plain>[^\s;\"{{}}]+))\s*;",
    re.S,
)
_NEEDS_ENABLING: Final = "jit: set services.postgresql.enableJIT = true too, for a build with LLVM."


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return a file for ``imports`` in configuration.nix."""
    ours, theirs = divide(lines, OWNED)
    jit = any(line.name == "jit" and line.value == "on" for line in ours)
    notes = comments([
        title,
        "Apply: imports = [ ./FILE ]; in configuration.nix, then nixos-rebuild switch.",
        "The rebuild restarts the server when its settings have changed.",
        *([_NEEDS_ENABLING] if jit else []),
        *left_out(theirs, "the module"),
    ])  # fmt: skip
    settings = "".join(_setting(line) for line in ours)
    return f"{notes}{{ ... }}:\n{{\n  {_PATH} = {{\n{settings}  }};\n}}\n"


def _setting(line: Line) -> str:
    name = line.name if _BARE.fullmatch(line.name) else _quoted(line.name)
    reason = f"    # {line.reason}\n" if line.reason else ""
    value = _quoted(line.value.replace("\\", "\\\\"))
    return f"{reason}    {name} = {value};\n"


def _quoted(text: str) -> str:
    """Return a string literal; a dollar sign before a brace would begin an interpolation."""
    return '"' + re.sub(r'(["\\$])', r"\\\1", text) + '"'


def read(text: str) -> dict[str, str]:
    """Return the settings; true and false become on and off, numbers are kept."""
    block = _BLOCK.search(_without_comments(text))
    if block is None:
        raise BadValue(
            f"no literal {_PATH} = {{ … }}; in this file", "Write values without functions."
        )
    body, at, found = block["body"], 0, {}
    while body[at:].strip():
        match = _SETTING.match(body, at)
        if match is None:
            row = body[at:].strip().split("\n")[0]
            raise BadValue(f"cannot read the setting {row!r}", 'Write: name = "value";')
        found[match["bare"] or _plain(match["quoted"])] = _value(match)
        at = match.end()
    return found


def _without_comments(text: str) -> str:
    return re.sub(rf"({_TEXT})|#[^\n]*", lambda match: match[1] or "", text)


def _value(match: re.Match[str]) -> str:
    if match["text"] is not None:
        return _plain(match["text"]).replace("\\\\", "\\")
    return {"true": "on", "false": "off"}.get(match["plain"], match["plain"])


def _plain(literal: str) -> str:
    letters = {"n": "\n", "r": "\r", "t": "\t"}
    return re.sub(r"\\(.)", lambda match: letters.get(match[1], match[1]), literal[1:-1])


FORMAT = Format(
    name="nixos", summary="NixOS: services.postgresql.settings", write=write, read=read, linux=True
)  # fmt: skip
