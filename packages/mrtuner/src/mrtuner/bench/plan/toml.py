"""Read a plan that a person wrote in TOML; unknown keys are errors."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, get_args

from mrtuner.bench.load.pgbench import Builtin, Protocol
from mrtuner.bench.load.programs import CommandWorkload
from mrtuner.bench.plan.model import (
    APART,
    Connect,
    JudgedBy,
    Network,
    Plan,
    Script,
    Storage,
    Variant,
    Workload,
)
from mrtuner.errors import BadValue, UsageError
from mrtuner.units import parse_bytes, parse_share

_COMMAND: Final = {one.name for one in fields(CommandWorkload)} - {"run"} | {"command"}
#: What a table may say: the fields of its record, or what they are made from.
_KEYS: Final = {
    Plan: {one.name for one in fields(Plan)}
    - {"workloads", "variants", "skipped", "standing"} | {"workload", "variant"},
    Workload: {one.name for one in fields(Workload)}
    - {"reads", "parts"} | {"options"} | _COMMAND,
    Script: {"file", "weight"},
    Variant: {one.name for one in fields(Variant)} - {"conf"} | {"file"},
}  # fmt: skip
_CHOICES: Final = {
    "builtin": Builtin, "protocol": Protocol, "judged_by": JudgedBy, "connect": Connect,
    "network": Network, "storage": Storage,
}  # fmt: skip
_SHARES: Final = ("delta", "steal_limit", "foreign_limit")


def read_plan(path: Path) -> Plan:
    """The plan in a TOML file, with the texts of the files that it names (relative to it).

    Raises UsageError for a file that cannot be read, BadValue for invalid contents.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", "Create one: mrtuner bench init > plan.toml."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadValue(f"{path} is not TOML: {error}", "See mrtuner bench init.") from error
    return plan(document, path.parent)


def template_text() -> str:
    """The text of a plan that explains every key."""
    return (files("mrtuner.bench.plan") / "template.toml").read_text(encoding="utf-8")


def plan(document: Mapping[str, Any], base: Path) -> Plan:
    """The plan of a parsed document; its files are relative to `base`."""
    import msgspec

    given = _known(document, Plan, "the plan")
    for key, read in (("workload", _workload), ("variant", _variant)):
        tables = given.pop(key, [])
        if not isinstance(tables, list) or not all(isinstance(item, dict) for item in tables):
            raise BadValue(f"{key} is not a list of tables", f"Start each one with [[{key}]].")
        given[f"{key}s"] = [
            read(item, f"[[{key}]] {number}", base) for number, item in enumerate(tables, 1)
        ]
    if isinstance(given.get("rates"), list):
        given["rates"] = [str(rate) for rate in given["rates"]]
    given |= {key: _share(given[key], key) for key in _SHARES if key in given}
    try:
        return msgspec.convert(given, Plan)
    except msgspec.ValidationError as error:
        # What the records themselves refuse; msgspec wraps every ValueError.
        if isinstance(error.__cause__, BadValue):
            raise error.__cause__ from None
        raise _refused(str(error)) from None


def _refused(message: str) -> BadValue:
    """What is wrong in words: ``Expected `int`, got `str` - at `$.variants[1].timeout` ``."""
    what, _, path = message.partition(" - at `$.")
    path = re.sub(r"s\[(\d+)\]\.", lambda match: f" {int(match[1]) + 1}: ", path.strip("`"))
    choices = get_args(_CHOICES.get(path.rpartition(" ")[2]))
    hint = f"Give one of {', '.join(choices)}." if choices else "See mrtuner bench init."
    return BadValue(f"{path}: {what[:1].lower()}{what[1:]}", hint)


def _workload(item: Mapping[str, Any], where: str, base: Path) -> dict[str, Any]:
    given = _known(item, Workload, where)
    if isinstance(given.get("scripts"), list):
        given["scripts"] = [_script(one, where, base) for one in given["scripts"]]
    if "setup" in given:
        given["setup"] = text_of(base / _text(given, "setup"))
    given["sysbench"] = _sysbench(given, base)
    given["command"] = _command(given, base)
    return {"name": given.get("builtin", "")} | given


def _sysbench(given: dict[str, Any], base: Path) -> dict[str, Any] | None:
    options = _written(given, "options")
    given.pop("options", None)
    if "sysbench" in given:
        return {"script": _beside(_text(given, "sysbench"), base), "options": options}
    if options:
        raise BadValue("options are only for sysbench", 'Add sysbench = "oltp_read_write".')
    return None


def _command(given: dict[str, Any], base: Path) -> dict[str, Any] | None:
    found = {key: given.pop(key) for key in sorted(_COMMAND) if key in given}
    if found and "command" not in found:
        raise BadValue(f"{next(iter(found))} is only for a command", 'Add command = "…".')
    for key in sorted({"command", "prepare"} & found.keys()):
        found[key] = _beside(_text(found, key), base)
    if "per_scale" in found:
        found["per_scale"] = int(parse_bytes(_text(found, "per_scale")))
    return found | {"run": found.pop("command")} if found else None


def _beside(command: str, base: Path) -> str:
    """Resolve a command's program relative to the plan if it is given by a path."""
    program, *rest = command.split(" ", 1)
    if "/" not in program:
        return command
    # Absolute: the run may be continued from another directory.
    return " ".join([shlex.quote(str((base / Path(program).expanduser()).absolute())), *rest])


def _script(item: object, where: str, base: Path) -> dict[str, Any]:
    table = {"file": item} if isinstance(item, str) else item
    if not isinstance(table, Mapping) or "file" not in table:
        raise BadValue("a script needs a file", 'Write scripts = [{ file = "read.sql" }].')
    given = _known(table, Script, f"a script of {where}")
    file = Path(_text(given, "file"))
    del given["file"]
    return given | {"name": file.name, "text": text_of(base / file)}


def _variant(item: Mapping[str, Any], where: str, base: Path) -> dict[str, Any]:
    given = _known(item, Variant, where)
    given["settings"] = _written(given, "settings")
    if "file" in given:
        given["conf"] = text_of(base / _text(given, "file"))
        del given["file"]
    if "server_bin" in given:
        given["server_bin"] = str(base / Path(_text(given, "server_bin")).expanduser())
    for key in sorted({"memory", "disk"} & given.keys()):
        given[key] = int(parse_bytes(_text(given, key)))
    for key in sorted({"start", "stop"} & given.keys()):
        given[key] = _beside(_text(given, key), base)
    if "image" in given:
        given["image"] = _image(_text(given, "image"), base)
    if given.get("network") in APART:
        given.setdefault("connect", "tcp")
    return {"name": ""} | given


def _image(name: str, base: Path) -> str:
    """A directory beside the plan if it looks like one, else the name of an image."""
    if name.startswith((".", "/", "~")):
        return str((base / Path(name).expanduser()).absolute())
    return name


def _known(table: Mapping[str, Any], record: type, where: str) -> dict[str, Any]:
    """A copy of the table; BadValue for a key that its record does not know."""
    keys = _KEYS[record]
    for key in table:
        if key not in keys:
            close = get_close_matches(key, keys, n=1)
            meant = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(keys))}"
            raise BadValue(f"unknown key {key!r} in {where}, {meant}", "See mrtuner bench init.")
    return dict(table)


def _text(table: Mapping[str, Any], key: str) -> str:
    if not isinstance(table[key], str):
        raise BadValue(f"{key} = {table[key]!r} is not a text in quotes", "See mrtuner bench init.")
    return str(table[key])


def _written(table: Mapping[str, Any], key: str) -> dict[str, str]:
    """The values of a table in a table as texts: true is on."""
    given = table.get(key, {})
    if not isinstance(given, dict):
        raise BadValue(f"{key} = {given!r} is not a table", "See mrtuner bench init.")
    words = {True: "on", False: "off"}
    return {
        name: words[value] if isinstance(value, bool) else str(value)
        for name, value in given.items()
    }


def _share(value: object, key: str) -> float:
    try:
        return parse_share(str(value))
    except BadValue:
        raise BadValue(f"{key} = {value!r} is not a share", 'Write "3%" or 0.03.') from None


def text_of(path: Path) -> str:
    """The text of a file that a plan names; UsageError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}",
            "Paths in a plan are relative to the plan.",
        ) from error
