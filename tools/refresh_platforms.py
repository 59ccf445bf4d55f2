"""Rewrite one platform of platforms.json from what its own command line lists.

``gcloud sql flags list --database-version=POSTGRES_18 --format=json > flags.json``
``python tools/refresh_platforms.py cloudsql flags.json``

``az postgres flexible-server parameter list -g GROUP -s SERVER -o json > parameters.json``
``python tools/refresh_platforms.py azure parameters.json``

Keeps only PostgreSQL's own parameters. Names in the file that the list lacks are removed, so use
the newest major.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from mrtuner.catalog.load import table
from mrtuner.catalog.platforms import FILE, newest
from mrtuner.errors import BadValue

CATALOG: Final = (
    Path(__file__).parent.parent / "packages" / "mrtuner" / "src" / "mrtuner" / "catalog"
)

Row = dict[str, Any]

_FLAG_TYPES: Final = {"INTEGER": "integer", "FLOAT": "float", "REPEATED_STRING": "list"}
_AZURE_TYPES: Final = {"Integer": "integer", "Numeric": "float", "Set": "list"}


def main(arguments: list[str] | None = None) -> None:
    """Rewrite the file with one platform's list in it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("platform", choices=sorted(READERS))
    parser.add_argument("list", type=Path, help="the JSON that gcloud or az printed")
    given = parser.parse_args(arguments)
    listed = json.loads(given.list.read_text(encoding="utf-8"))
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    document = with_list(table(FILE), given.platform, listed, today)
    (CATALOG / FILE).write_text(written(document), encoding="utf-8")


def with_list(document: Any, name: str, listed: Any, seen: str) -> Any:
    """Return the document with this list for the platform; BadValue for another kind of list."""
    read, source = READERS[name]
    try:
        rows = dict(read(listed))
    except (KeyError, TypeError, AttributeError):
        raise BadValue(f"this is not the list of {name}", f"Write it with: {source}.") from None
    ours = {each: row for each, row in sorted(rows.items()) if newest(each) is not None}
    if not ours:
        raise BadValue("no parameter of PostgreSQL in this list", f"Write it with: {source}.")
    kept = document["platforms"][name]
    entry = {"title": kept["title"], "seen": seen, "source": source, "parameters": ours}
    return document | {"platforms": document["platforms"] | {name: entry}}


def written(document: Any) -> str:
    """Return the text of platforms.json: one parameter per line."""
    platforms = ",\n".join(
        _platform(name, of) for name, of in sorted(document["platforms"].items())
    )  # fmt: skip
    about = json.dumps(document["about"], ensure_ascii=False)
    return f'{{\n "about": {about},\n "platforms": {{\n{platforms}\n }}\n}}\n'


def _platform(name: str, of: Mapping[str, Any]) -> str:
    head = "".join(
        f'   "{key}": {json.dumps(of[key], ensure_ascii=False)},\n'
        for key in ("title", "seen", "source")
    )
    rows = ",\n".join(
        f'    "{each}": {json.dumps(row, ensure_ascii=False)}'
        for each, row in sorted(of["parameters"].items())
    )
    return f'  "{name}": {{\n{head}   "parameters": {{\n{rows}\n   }}\n  }}'


def _flags(listed: Any) -> Iterable[tuple[str, Row]]:
    """Yield flag resources of the Cloud SQL Admin API."""
    for flag in listed:
        yield flag["name"], _row(_FLAG_TYPES.get(flag["type"], "string"), _flag_allowed(flag))


def _flag_allowed(flag: Mapping[str, Any]) -> str | None:
    if flag["type"] == "BOOLEAN":
        return "on,off"
    if flag.get("allowedStringValues"):
        return ",".join(flag["allowedStringValues"])
    if "minValue" in flag and "maxValue" in flag:
        return f"{flag['minValue']}-{flag['maxValue']}"
    return None


def _parameters(listed: Any) -> Iterable[tuple[str, Row]]:
    """Yield configurations of the flexible server API, as az prints them."""
    for item in listed:
        kind = _AZURE_TYPES.get(str(item["dataType"]).title(), "string")
        fixed = bool(item.get("isReadOnly"))
        yield item["name"], _row(kind, _plain(item.get("allowedValues")), fixed=fixed)


def _plain(allowed: Any) -> str | None:
    """Return allowed values if they are a range or words; text patterns are dropped."""
    text = str(allowed or "")
    return text if re.fullmatch(r"[\w.+,-]+", text) else None


def _row(kind: str, allowed: str | None, *, fixed: bool = False) -> Row:
    row: Row = {"type": kind}
    if allowed is not None:
        row["allowed"] = allowed
    return row | ({"fixed": True} if fixed else {})


Reader = Callable[[Any], Iterable[tuple[str, Row]]]

#: The reader of a platform's list, and the command that prints it.
READERS: Final[Mapping[str, tuple[Reader, str]]] = {
    "azure": (_parameters, "az postgres flexible-server parameter list -o json"),
    "cloudsql": (_flags, "gcloud sql flags list --database-version=POSTGRES_N --format=json"),
}

if __name__ == "__main__":
    main()
