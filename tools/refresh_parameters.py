"""Rewrite parameters.json from real servers.

``python tools/refresh_parameters.py --server-bin DIR [--server-bin DIR …]``

Starts a throwaway cluster with each given server and reads its pg_settings. Other majors are
kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from mrtuner.catalog.load import table
from mrtuner.catalog.spans import Fields, Timeline, timeline, written
from mrtuner.postgres.binaries import find_binaries
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory

CATALOG: Final = (
    Path(__file__).parent.parent / "packages" / "mrtuner" / "src" / "mrtuner" / "catalog"
)

_QUERY: Final = """
SELECT name, vartype, unit, context, boot_val, min_val, max_val, enumvals
  FROM pg_settings
"""

#: Paths, versions and library names of one build, and what initdb reads from its environment.
NO_DEFAULT: Final = frozenset({
    "config_file", "data_directory", "default_text_search_config", "external_pid_file",
    "hba_file", "hosts_file", "ident_file", "krb_server_keyfile", "lc_messages", "lc_monetary",
    "lc_numeric", "lc_time", "log_timezone", "max_stack_depth", "ssl_ciphers", "ssl_ecdh_curve",
    "ssl_groups", "TimeZone", "unix_socket_directories",
})  # fmt: skip

#: Values that initdb writes into postgresql.conf wherever the kernel allows them, documented as
#: the default. Source: initdb.c, test_config_settings.
INITDB_DEFAULTS: Final[dict[str, Any]] = {"shared_buffers": 16384}


def fields(row: Sequence[Any]) -> Fields:
    """Return a typed row of pg_settings for the catalogue, without what depends on the build."""
    name, vartype, unit, context, boot, low, high, words = row
    found: Fields = {"vartype": vartype, "unit": unit, "context": context}
    if context != "internal":  # a preset is read-only: its values are this server's
        found |= {"min": _typed(low, vartype), "max": _typed(high, vartype)}
        found["default"] = _default(name, boot, vartype)
    found["enum"] = list(words) if words else None
    return {key: value for key, value in found.items() if value is not None}


def with_builds(name: str, major: int, found: Fields) -> Fields:
    """Add enum values that this server's build omits."""
    known = table("builds.json").get(name)
    if not known or major < known["since"] or "enum" not in found:
        return found
    unlisted = set(found["enum"]) - set(known["enum"])
    if unlisted:
        raise SystemExit(f"builds.json lacks {name} values {sorted(unlisted)} of {major}")
    return found | {"enum": known["enum"], "build": known["build"]}


def replaced(line: Timeline, major: int, found: dict[str, Fields]) -> Timeline:
    """Return the timeline with one major's data replaced."""
    names = line.keys() | found.keys()
    kept = {name: {m: of for m, of in line.get(name, {}).items() if m != major} for name in names}
    for name, of in found.items():
        kept[name][major] = of
    return kept


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python tools/refresh_parameters.py")
    parser.add_argument("--server-bin", metavar="DIR", type=Path, action="append", default=[])
    options = parser.parse_args(arguments)
    place = CATALOG / "parameters.json"
    old = json.loads(place.read_text(encoding="utf-8"))
    place.write_text(refreshed(old, options.server_bin), encoding="utf-8")
    sys.stdout.write(f"wrote {place.name}\n")


def refreshed(old: Any, directories: Iterable[Path]) -> str:
    """Return the text of parameters.json after reading the servers in `directories`."""
    majors, line = dict(old["majors"]), timeline(old["parameters"])
    for directory in directories:
        version, major, found = _read(directory)
        majors[str(major)] = {"version": version, "certainty": "server"}
        line = replaced(line, major, found)
    return written(majors, line)


def _read(directory: Path) -> tuple[str, int, dict[str, Fields]]:
    """Return version, major and every parameter of the server with its programs in `directory`."""
    import psycopg

    binaries = find_binaries(directory)
    cluster = Cluster.create(binaries, scratch_directory())
    try:
        with cluster, psycopg.connect(cluster.dsn()) as connection:
            rows = connection.execute(_QUERY).fetchall()
    finally:
        cluster.remove()
    found = {row[0]: with_builds(row[0], binaries.major, fields(row)) for row in rows}
    return binaries.version, binaries.major, found


def _default(name: str, boot: str | None, vartype: str) -> Any:
    if name in NO_DEFAULT:
        return None
    return INITDB_DEFAULTS.get(name, _typed(boot, vartype))


def _typed(text: str | None, vartype: str) -> Any:
    if text is None:
        return None
    match vartype:
        case "bool":
            return text == "on"
        case "integer":
            return int(text)
        case "real":
            return _real(text)
        case _:
            return text


def _real(text: str) -> float:
    """Parse a real. pg_settings prints six digits: the largest double gets a little too large."""
    return min(float(text), sys.float_info.max) if text != "1.79769e+308" else sys.float_info.max


if __name__ == "__main__":
    main()
