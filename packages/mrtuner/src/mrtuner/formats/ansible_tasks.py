"""Ansible: a play of community.postgresql tasks, which run ALTER SYSTEM and reload.

postgresql_alter_system was added in community.postgresql 3.13, for PostgreSQL 14 and later; the
older postgresql_set will be removed in 5.0. Both put the value between single quotes unchanged
and split values with commas as lists. Source: community.postgresql 4.2, plugins/modules/
postgresql_alter_system.py, postgresql_set.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from mrtuner.errors import BadValue
from mrtuner.formats import manifest
from mrtuner.formats.ansible import templates_back, without_templates
from mrtuner.formats.line import Format, Line

_MODULE: Final = "community.postgresql.postgresql_alter_system"
_OLDER: Final = "community.postgresql.postgresql_set"
_RESTART: Final = "Restart PostgreSQL"
_KEY: Final = re.compile(r'(?P<indent> *)- param: "(?P<name>[A-Za-z_][\w$.]*)"')


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return a playbook; the server restarts only with ``-e restart_postgresql=true``."""
    due = [line for line in lines if line.restart]
    notes = [
        title,
        "Apply: ansible-playbook FILE -e restart_postgresql=true; without the variable, "
        "settings that need a restart wait for the next one. Rename the group, and the "
        "service if it is not postgresql.",
        "Needs community.postgresql 3.13. For PostgreSQL 13 write postgresql_set with name instead "
        "of postgresql_alter_system with param.",
    ]
    play: dict[str, object] = {
        "name": "Settings by MrTuner",
        "hosts": "postgresql",
        "become": True,
        "become_user": "postgres",
        "tasks": [
            *_task("Settings that need a reload", [x for x in lines if not x.restart]),
            *(task | {"notify": _RESTART} for task in _task("Settings that need a restart", due)),
        ],
    }
    if due:
        play["handlers"] = [_handler()]
    return manifest.manifest([play], lines, notes, key=_KEY)


def _task(name: str, lines: Iterable[Line]) -> Iterator[dict[str, object]]:
    loop = [
        {"param": manifest.Text(line.name), "value": manifest.Text(_value(line))} for line in lines
    ]
    if loop:
        yield {
            "name": name,
            _MODULE: {"param": manifest.Text("{{ item.param }}"),
                      "value": manifest.Text("{{ item.value }}")},
            "loop": loop,
        }  # fmt: skip


def _handler() -> dict[str, object]:
    return {
        "name": _RESTART,
        "ansible.builtin.service": {"name": "postgresql", "state": "restarted"},
        "become_user": "root",
        "when": "restart_postgresql | default(false) | bool",
    }


def _value(line: Line) -> str:
    return without_templates(line.value.replace("'", "''"))


def read(text: str) -> dict[str, str]:
    """Return what the tasks set, in a loop or one by one; other tasks are ignored."""
    plays = manifest.document(text)
    if not isinstance(plays, list) or not all(isinstance(play, dict) for play in plays):
        raise BadValue("no list of plays in this file", "Give the whole playbook.")
    tasks = [task for play in plays for task in play.get("tasks") or ()]
    return dict(pair for task in tasks if isinstance(task, dict) for pair in _set_by(task))


def _set_by(task: dict[str, Any]) -> Iterator[tuple[str, str]]:
    module = task.get(_MODULE) or task.get(_OLDER)
    if not isinstance(module, dict):
        return
    for item in task["loop"] if isinstance(task.get("loop"), list) else [module]:
        try:
            name = item["param"] if "param" in item else item["name"]
            value = manifest.text(item["value"])
        except (TypeError, KeyError):
            raise BadValue(f"cannot read the setting {item!r}", "Write param and value.") from None
        yield str(name), templates_back(value).replace("''", "'")


FORMAT = Format(
    name="ansible-tasks", summary="Ansible: a play of community.postgresql tasks",
    write=write, read=read,
)  # fmt: skip
