"""Ansible: the variable from which the role geerlingguy.postgresql writes postgresql.conf.

The role puts a value between single quotes unchanged, so quotes and backslashes are doubled, and
template syntax is escaped. It finds the row to replace by the beginning of the name, so names are
sorted: then max_parallel_workers never overwrites max_parallel_workers_per_gather. Source:
geerlingguy/ansible-role-postgresql, defaults/main.yml, tasks/configure.yml, handlers/main.yml.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from mrtuner.errors import BadValue
from mrtuner.formats import manifest
from mrtuner.formats.line import Format, Line, divide
from mrtuner.postgres import conf_file

OWNED: Final = frozenset({"unix_socket_directories"})
_VARIABLE: Final = "postgresql_global_config_options"
#: The role's own default, which a variable of this name replaces.
_DEFAULT: Final = {
    "option": "unix_socket_directories",
    "value": '{{ postgresql_unix_socket_directories | join(",") }}',
}
_KEY: Final = re.compile(r'(?P<indent> *)- option: "(?P<name>[A-Za-z_][\w$.]*)"')
_BRACE: Final = '{{ "{" }}'


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return a file of variables."""
    ours, theirs = divide(lines, OWNED)
    values = {line.name: without_templates(conf_file.escaped(line.value)) for line in ours}
    options = [{"option": manifest.Text(name), "value": manifest.Text(value)}
               for name, value in sorted(values.items())]  # fmt: skip
    notes = [
        title,
        "Apply: put it into the group's variables and run the play with geerlingguy.postgresql.",
        "The list replaces the role's own: its entry for sockets is kept; add your other entries.",
        "The role restarts the server after any change; with postgresql_restarted_state: "
        "reloaded, settings that need a restart wait for the next one.",
        *manifest.left_out(theirs, "the role"),
    ]
    return manifest.manifest({_VARIABLE: [_DEFAULT, *options]}, ours, notes, key=_KEY)


def without_templates(text: str) -> str:
    """Return text that Jinja renders unchanged."""
    return re.sub(r"\{(?=[{%#])", lambda _: _BRACE, text)


def templates_back(text: str) -> str:
    """Reverse `without_templates`."""
    return text.replace(_BRACE, "{")


def read(text: str) -> dict[str, str]:
    """Return the options in the variable, without the role's own."""
    options = manifest.load(text).get(_VARIABLE)
    if not isinstance(options, list):
        raise BadValue(f"no list {_VARIABLE} in this file", "Give the file of variables.")
    return dict(_option(each) for each in options if each != _DEFAULT)


def _option(item: Any) -> tuple[str, str]:
    try:
        name, value = item["option"], manifest.text(item["value"])
    except (TypeError, KeyError):
        raise BadValue(f"cannot read the option {item!r}", "Write option and value.") from None
    return str(name), conf_file.unescaped(templates_back(value))


FORMAT = Format(
    name="ansible", summary="Ansible: variables of the role geerlingguy.postgresql",
    write=write, read=read,
)  # fmt: skip
