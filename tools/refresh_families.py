"""Rewrite families.json, the data on parameter group families.

``python tools/refresh_families.py [--family NAME … | --all] [--region REGION]``

With --family or --all it queries the API (DescribeEngineDefaultParameters and, for Aurora,
DescribeEngineDefaultClusterParameters; credentials are needed) and adds the answers to the public
findings in family_facts.json. Otherwise it makes no calls, and recreates families.json from
family_facts.json and our catalogue of PostgreSQL's own parameters.

A family that was never seen is inferred from the nearest major that was: parameters that its
PostgreSQL lacks are left out, and additional ones are added from pg_settings. `seen` in both
files is the major that a source is about, or true where it is about all.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from mrtuner.aws.calls import answers
from mrtuner.aws.rows import GroupParameter, parameter_row
from mrtuner.aws.session import Account, client
from mrtuner.catalog.families import ENGINES, FIRST, LAST, families
from mrtuner.catalog.load import parameters
from mrtuner.catalog.parameter import Parameter
from mrtuner.catalog.spans import Fields, Timeline, fold
from mrtuner.errors import MrTunerError

CATALOG: Final = (
    Path(__file__).parent.parent / "packages" / "mrtuner" / "src" / "mrtuner" / "catalog"
)

#: What a list that the API gave calls its source; such a list needs no other facts.
_API: Final = "DescribeEngineDefaultParameters"
_DATA_TYPES: Final = {
    "bool": "boolean", "integer": "integer", "real": "float", "enum": "string", "string": "string",
}  # fmt: skip
#: The fields of a row, in the order in which they are written; no others are allowed.
_FIELDS: Final = (
    "seen", "type", "apply", "fixed", "allowed", "default", "level", "source",
)  # fmt: skip

Rows = dict[str, Fields]


def family_rows(engine: str, major: int, facts: Any) -> Rows:
    """Return every parameter of a family, from the nearest list of the same engine."""
    base = nearest(engine, major, facts["lists"])
    listed = facts["lists"][f"{engine}{base}"]
    rows = dict(_carried(listed, base, major))
    if listed["source"].startswith(_API) and base == major:
        return rows
    rows |= _new(engine, base, major, _withheld(engine, facts["withheld"]))
    for name, spans in facts["facts"].get(engine, {}).items():
        _amend(rows, name, spans, major)
    return rows


def nearest(engine: str, major: int, lists: Iterable[str]) -> int:
    """Return the major of this engine's list that is closest to `major`, the older of two."""
    known = (
        int(name.removeprefix(engine)) for name in lists if name.rstrip("0123456789") == engine
    )
    return min(known, key=lambda other: (abs(other - major), other))


def from_pg_settings(parameter: Parameter) -> Fields:
    """Return one of PostgreSQL's own parameters as RDS would list it."""
    found: Fields = {
        "type": _DATA_TYPES[parameter.vartype],
        "apply": "static" if parameter.restart else "dynamic",
        "allowed": _allowed(parameter),
        "source": "pg_settings",
    }
    return _without_none(found)


def rows_from_api(
    instance: Iterable[GroupParameter], cluster: Iterable[GroupParameter] = ()
) -> Rows:
    """Return the API's parameters in the format of family_facts.json.

    What Aurora lists for the cluster but not for the instance is cluster-level.
    """
    rows = {row.name: _api_row(row) for row in instance}
    only = (row for row in cluster if row.name not in rows)
    return rows | {row.name: _api_row(row) | {"level": "cluster"} for row in only}


def written(sources: Mapping[str, str], engines: Mapping[str, Timeline]) -> str:
    """Return families.json as text: one span per line, sorted by name."""
    blocks = [f' "sources": {_object(sources)}']
    blocks += [f" {_json(engine)}: {_object(_folded(line))}" for engine, line in engines.items()]
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python tools/refresh_families.py")
    parser.add_argument("--family", action="append", default=[], choices=families())
    parser.add_argument("--all", action="store_true", help="ask the API for every family")
    parser.add_argument("--region", help="default: as boto3 finds it")
    options = parser.parse_args(arguments)
    facts = json.loads(_beside("family_facts.json").read_text(encoding="utf-8"))
    asked = families() if options.all else options.family
    if asked:
        facts = _asked(facts, asked, Account(region=options.region))
        _write("family_facts.json", facts_text(facts))
    _write("families.json", rebuilt(facts))


def _asked(facts: Any, names: Iterable[str], account: Account) -> Any:
    try:
        return with_answers(facts, names, account)
    except MrTunerError as error:
        raise SystemExit(f"{error}\nHINT: {error.hint}") from None


def rebuilt(facts: Any) -> str:
    """Return the text of families.json that follows from the facts."""
    engines = {engine: _timeline(engine, facts) for engine in ENGINES}
    return written(facts["sources"], engines)


def with_answers(facts: Any, names: Iterable[str], account: Account) -> Any:
    """Return the facts with the API's answers for these families added."""
    source = f"{_API} {datetime.now(UTC):%Y-%m-%d}"
    lists = dict(facts["lists"])
    for name in names:
        lists[name] = {"source": source, "parameters": _ask(name, account)}
    return facts | {"lists": lists, "sources": facts["sources"] | {source: "asked by this program"}}


def facts_text(facts: Any) -> str:
    """Return family_facts.json as text: one parameter per line, sorted by name."""
    lists = ",\n".join(
        f'  {_json(name)}: {{"source":{_json(of["source"])},"parameters":'
        f"{_object(of['parameters'], 4)}}}"
        for name, of in sorted(facts["lists"].items())
    )
    blocks = [f' "sources": {_object(facts["sources"])}', f' "lists": {{\n{lists}\n }}']
    blocks += [f" {_json(part)}: {_nested(facts[part])}" for part in ("facts", "withheld")]
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _timeline(engine: str, facts: Any) -> Timeline:
    line: Timeline = {}
    for major in range(FIRST, LAST + 1):
        for name, row in family_rows(engine, major, facts).items():
            line.setdefault(name, {})[major] = row
    return line


def _carried(listed: Any, base: int, major: int) -> Iterator[tuple[str, Fields]]:
    """Yield the rows of a list that also hold for another major."""
    before, now = _by_lower_name(base), _by_lower_name(major)
    gone = _ever() - now.keys()
    for name, row in listed["parameters"].items():
        if name not in gone:
            full = {"source": listed["source"], "seen": base} | row
            yield name, _completed(full, before.get(name), now.get(name))


def _completed(row: Fields, before: Parameter | None, now: Parameter | None) -> Fields:
    """Add a missing apply type, and update a type that PostgreSQL changed."""
    if before and now and before.vartype != now.vartype:
        fresh = from_pg_settings(now)
        kept = {key: row[key] for key in ("seen", "level", "fixed") if key in row}
        return fresh | kept | {"source": f"{row['source']}; type pg_settings"}
    if "apply" not in row:
        origin = now or before
        if origin is None:
            raise SystemExit("a parameter without apply type is not PostgreSQL's own")
        row = row | {"apply": from_pg_settings(origin)["apply"]}
        row["source"] += "; apply pg_settings"
    return row


def _new(engine: str, base: int, major: int, withheld: Mapping[str, str]) -> Rows:
    """Return what this major of PostgreSQL has but the listed one does not.

    For Aurora these are cluster-level: cluster groups list everything, instance groups a part.
    """
    level = {"level": "cluster"} if engine.startswith("aurora") else {}
    before = _by_lower_name(base)
    rows = {}
    for name, parameter in _by_lower_name(major).items():
        if name in before or parameter.context == "internal":
            continue
        rows[name] = from_pg_settings(parameter) | level
        if name in withheld:
            rows[name] |= {"fixed": True, "source": f"pg_settings; fixed guessed: {withheld[name]}"}
    return rows


def _amend(rows: Rows, name: str, spans: Iterable[Fields], major: int) -> None:
    """Override inferred values with single facts."""
    for span in spans:
        if not span["since"] <= major <= span["until"]:
            continue
        if span.get("gone"):
            rows.pop(name, None)
            continue
        fact = {key: of for key, of in span.items() if key not in ("since", "until")}
        rows[name] = rows.get(name, {}) | fact


def _withheld(engine: str, withheld: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    return {**withheld["both"], **withheld.get(engine, {})}


def _by_lower_name(major: int) -> Mapping[str, Parameter]:
    """Map AWS's spelling to parameters: datestyle and timezone for DateStyle and TimeZone."""
    return {name.lower(): parameter for name, parameter in parameters(major).items()}


def _ever() -> set[str]:
    return {name for major in range(FIRST, LAST + 1) for name in _by_lower_name(major)}


def _allowed(parameter: Parameter) -> str | None:
    match parameter.vartype:
        case "bool":
            return "0,1"
        case "enum":
            return ",".join(parameter.enum)
        case "string":
            return None
        case _:
            return f"{_bound(parameter.min)}-{_bound(parameter.max)}"


def _bound(value: float | None) -> str:
    if isinstance(value, int):
        return str(value)
    return f"{value:g}"


def _api_row(row: GroupParameter) -> Fields:
    found: Fields = {
        "type": row.data_type,
        "apply": row.apply_type,
        "fixed": None if row.modifiable else True,
        "allowed": row.allowed,
        "default": row.value,
    }
    return _without_none(found)


def _ask(name: str, account: Account) -> Rows:
    """Query the API for one family's parameters."""
    rds = client("rds", account)
    instance = _defaults(rds, name, "engine_default")
    if not name.startswith("aurora"):
        return rows_from_api(instance)
    return rows_from_api(instance, _defaults(rds, name, "engine_default_cluster"))


def _defaults(rds: Any, family: str, kind: str) -> tuple[GroupParameter, ...]:
    pages = answers(rds, f"describe_{kind}_parameters", DBParameterGroupFamily=family)
    rows = (row for page in pages for row in page["EngineDefaults"].get("Parameters", ()))
    return tuple(parameter_row(row) for row in rows)


def _folded(line: Timeline) -> dict[str, list[Fields]]:
    ordered = {name: {m: _in_order(row) for m, row in of.items()} for name, of in line.items()}
    return {name: fold(majors) for name, majors in ordered.items()}


def _in_order(row: Fields) -> Fields:
    return {key: row[key] for key in _FIELDS if row.get(key) is not None}


def _without_none(fields: Fields) -> Fields:
    return {key: value for key, value in fields.items() if value is not None}


def _nested(parts: Mapping[str, Mapping[str, Any]]) -> str:
    body = ",\n".join(f"  {_json(name)}: {_object(parts[name], 3)}" for name in sorted(parts))
    return f"{{\n{body}\n }}"


def _object(of: Mapping[str, Any], indent: int = 2) -> str:
    pad = " " * indent
    lines = (f"{pad}{_json(name)}: {_json(of[name])}" for name in sorted(of, key=str.lower))
    return "{\n" + ",\n".join(lines) + "\n" + " " * (indent - 1) + "}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _beside(file: str) -> Path:
    return CATALOG / file


def _write(file: str, text: str) -> None:
    _beside(file).write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {file}\n")


if __name__ == "__main__":
    main()
