"""The catalogue against every real server that can be started here.

Compared: every name, and for each the type, unit, bounds, context and default. Not compared, and
why:

* default and bounds of presets (context internal): they report one server's build and state;
* the defaults in `DECIDED_ELSEWHERE`: paths, and what the build or initdb decides;
* shared_buffers before 15: initdb writes the documented default, the built-in one is 8MB;
* enum words that depend on the build: the server may lack those, and only those;
* names in `ADDED_BY_PACKAGERS` and, on an older minor release, `ADDED_LATER`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from mrtuner.catalog import Parameter, parameters
from servers import MAJORS, running

Row = dict[str, Any]

#: What 19 adds to a value that it shows: the clock that `auto` chose.
SHOWN_ONLY = {"timing_clock_source": " (tsc)"}

DECIDED_ELSEWHERE = {
    "config_file", "data_directory", "external_pid_file", "hba_file", "ident_file",  # paths
    "krb_server_keyfile", "unix_socket_directories",  # paths that a build chooses
    "ssl_ciphers", "ssl_ecdh_curve", "ssl_groups",  # "none" without OpenSSL
    "default_text_search_config", "lc_messages", "lc_monetary", "lc_numeric", "lc_time",  # initdb
    "TimeZone", "log_timezone",  # initdb
    "max_stack_depth",  # from the stack limit at start
}  # fmt: skip
ADDED_BY_PACKAGERS = {"extension_destdir"}  # Debian
ADDED_LATER = {"output_plugin_libraries"}  # 14.24, 15.19, 16.15, 17.11, 18.6


@pytest.fixture(scope="module", params=MAJORS, ids=lambda major: f"pg{major}")
def each_major(request: pytest.FixtureRequest) -> int:
    """As conftest's, for the whole module: one cluster serves all its tests."""
    return int(request.param)


@pytest.fixture(scope="module")
def rows(each_major: int) -> Iterator[Mapping[str, Row]]:
    with (
        running(each_major, {"fsync": "off"}) as cluster,
        psycopg.connect(cluster.dsn(), row_factory=dict_row) as server,
    ):
        yield {row["name"]: row for row in server.execute("SELECT * FROM pg_settings")}


def test_the_catalogue_agrees_with_the_server(each_major: int, rows: Mapping[str, Row]) -> None:
    known = parameters(each_major)
    assert set(rows) - set(known) <= ADDED_BY_PACKAGERS
    assert set(known) - set(rows) <= ADDED_LATER
    both = rows.keys() & known.keys()
    assert [line for name in sorted(both) for line in differences(rows[name], known[name])] == []


def test_a_fresh_cluster_has_the_shared_buffers_that_we_call_the_default(
    each_major: int, rows: Mapping[str, Row]
) -> None:
    assert rows["shared_buffers"]["setting"] == "16384"
    assert parameters(each_major)["shared_buffers"].default == 16384


def test_every_value_in_force_is_read_and_let_through(
    each_major: int, rows: Mapping[str, Row]
) -> None:
    """Even those that a check hook computed: wal_buffers, max_stack_depth, io_max_concurrency."""
    for name, known in parameters(each_major).items():
        if name in rows and known.vartype != "string" and known.context != "internal":
            # What the server would refuse if it were written, it only shows.
            known.parse(rows[name]["setting"].removesuffix(SHOWN_ONLY.get(name, "")))


def differences(row: Row, known: Parameter) -> list[str]:
    server = {name: row[name] for name in ("vartype", "unit", "context")}
    ours: dict[str, Any] = {name: getattr(known, name) for name in server}
    if known.context != "internal":
        server |= {"min": row["min_val"], "max": row["max_val"]}
        ours |= {"min": printed(known.min), "max": printed(known.max)}
    if known.context != "internal" and known.name not in DECIDED_ELSEWHERE | {"shared_buffers"}:
        server["default"] = row["boot_val"]
        ours["default"] = printed(known.default)
    wrong = [
        f"{known.name}: {k} {server[k]!r}, not {ours[k]!r}" for k in server if server[k] != ours[k]
    ]
    return wrong + wrong_words(row["enumvals"] or [], known)


def wrong_words(listed: list[str], known: Parameter) -> list[str]:
    expected = [word for word in known.enum if word in listed or word not in known.build]
    return [] if listed == expected else [f"{known.name}: enum {listed}, not {expected}"]


def printed(value: object) -> str | None:
    match value:
        case bool():
            return "on" if value else "off"
        case float():
            return f"{value:g}"
        case None:
            return None
        case _:
            return str(value)
