"""The engine versions that the lab offers, and DescribeDBEngineVersions.

Source of the list: cfn-lint 1.58.0's table of RDS engine versions. Upgrade paths are simplified:
a version can be upgraded to any later one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from rdstune.lab.pages import Row, listed
from rdstune.lab.refusals import invalid_combination, invalid_value
from rdstune.lab.world import Instance


@cache
def offered() -> Mapping[str, list[str]]:
    """Return every version by engine, oldest first."""
    text = Path(__file__).with_name("versions.json").read_text(encoding="utf-8")
    versions: dict[str, list[str]] = json.loads(text)["versions"]
    return versions


def chosen(engine: str, asked: str | None) -> str:
    """Return the full version for a request: nothing, a major, or a full version."""
    known = offered()[engine]
    if asked is None:
        return _default(engine)
    exact = [version for version in known if version == asked]
    of_major = [version for version in known if version.split(".")[0] == asked]
    if not exact and not of_major:
        raise invalid_combination(f"Cannot find version {asked} for {engine}")
    return exact[0] if exact else of_major[-1]


def default_group(engine: str, version: str) -> str:
    """Return the name of AWS's own parameter group for a version."""
    return f"default.{_family(engine, version)}"


def check_upgrade(instance: Instance, to: str) -> None:
    """Refuse downgrades."""
    if to not in offered()[instance.engine]:
        raise invalid_combination(f"Cannot find version {to} for {instance.engine}")
    if _number(to) < _number(instance.version):
        raise invalid_combination(
            f"Cannot upgrade {instance.engine} from {instance.version} to {to}"
        )


def describe(_region: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    engine, version = params.get("Engine"), params.get("EngineVersion")
    if engine is not None and engine not in offered():
        raise invalid_value(f"Invalid DB engine: {engine}")
    rows = [
        _row(name, number)
        for name in offered()
        for number in offered()[name]
        if engine in (None, name)
        and version in (None, number, number.split(".")[0])
        and params.get("DBParameterGroupFamily") in (None, _family(name, number))
        and (not params.get("DefaultOnly") or number == _default(name))
    ]
    return listed("DBEngineVersions", rows, params)


def _row(engine: str, version: str) -> Row:
    later = [each for each in offered()[engine] if _number(each) > _number(version)]
    return {
        "Engine": engine,
        "EngineVersion": version,
        "MajorEngineVersion": version.split(".", maxsplit=1)[0],
        "DBParameterGroupFamily": _family(engine, version),
        "DBEngineDescription": "PostgreSQL" if engine == "postgres" else "Aurora (PostgreSQL)",
        "DBEngineVersionDescription": f"PostgreSQL {version}",
        "Status": "available",
        "SupportsReadReplica": True,
        "ValidUpgradeTarget": [
            {
                "Engine": engine,
                "EngineVersion": each,
                "IsMajorVersionUpgrade": each.split(".")[0] != version.split(".", maxsplit=1)[0],
                "AutoUpgrade": False,
            }
            for each in later
        ],
    }


def _family(engine: str, version: str) -> str:
    return f"{engine}{version.split('.', maxsplit=1)[0]}"


def _default(engine: str) -> str:
    """Return the newest minor of the second newest major, as AWS is also slow to move (guessed)."""
    majors = sorted({int(version.split(".")[0]) for version in offered()[engine]})
    wanted = str(majors[-2])
    return [each for each in offered()[engine] if each.split(".")[0] == wanted][-1]


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


OPERATIONS: Final = {"DescribeDBEngineVersions": describe}
