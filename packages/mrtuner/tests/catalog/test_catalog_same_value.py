"""Whether two texts mean the same: one reader, with servers of every major as the judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from mrtuner import notation
from mrtuner.postgres.conf_file import same_value
from servers import GRID, running

#: Parameters of each type that a session may set, and how people, files and tools write them.
NOTATIONS = {
    "work_mem": (
        "0x1000", "0X1000", "010000", "4096", "4MB", "4096kB", "4 MB", " 4MB ", "0.00390625GB",
        "4194304B", "4e3", "4.4e3kB", "4mb", "4M", "4_096", "0b1000", "0x1000kB", "four", "",
    ),
    "temp_buffers": ("0x400", "1024", "8MB", "8191kB", "12kB", "1.5MB", "02000", "8MiB"),
    "statement_timeout": ("90s", "1.5min", "90000", "0x15f90", "90000000us", "1.5 min", "90 S"),
    "vacuum_cost_delay": ("2", "2ms", "2000us", "0x2", "0.002s", "2.0", "2,0", "1.23456789"),
    "random_page_cost": ("1.1", "1.10", "11e-1", "0x1.199999999999ap0", "1.1000000001", "1,1"),
    "jit": ("tru", "t", "TRUE", "y", "ye", "on", "1", "o", "of", "fals", "n", "01", "enabled", ""),
    "enable_seqscan": ("of", "f", "F", "no", "nO", "0", "00"),
    "synchronous_commit": ("true", "tru", "yes", "y", "1", "ON", "off", "0", "remote_Apply", "t"),
    "constraint_exclusion": ("Partition", "true", "0", "partitio"),
    "client_min_messages": ("debug", "DEBUG2", "Notice", "info", "warn"),
    "wal_compression": ("on", "true", "off", "pglz", "lz4", "zstd", "1", "tru"),
    "timing_clock_source": ("auto", "AUTO", "system", "tsc"),
    "password_encryption": ("on", "md5", "scram-sha-256", "off"),
}  # fmt: skip

#: Only the server knows an enum's words, so we do not predict what it refuses.
ENUMS = {
    "synchronous_commit", "constraint_exclusion", "client_min_messages", "wal_compression",
    "password_encryption", "timing_clock_source",
}  # fmt: skip

#: `on` of wal_compression is a method that depends on version and build, so it may be any of them.
METHODS = {"pglz", "lz4", "zstd"}

Judge = psycopg.Connection[Any]


@pytest.fixture(scope="module", params=GRID)
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    with (
        running(request.param, {"fsync": "off"}) as cluster,
        psycopg.connect(cluster.dsn(), autocommit=True) as connection,
    ):
        yield connection


def shown(judge: Judge, name: str, text: str) -> str | None:
    """What pg_settings shows after the text was set; None when the server refuses it."""
    try:
        with judge.transaction(force_rollback=True):
            judge.execute("SELECT set_config(%s, %s, true)", (name, text))
            query = "SELECT setting FROM pg_settings WHERE name = %s"
            row = judge.execute(query, (name,)).fetchone()
    except psycopg.errors.DataError:
        return None
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize("name", NOTATIONS)
def test_texts_are_the_same_exactly_when_the_server_shows_the_same(judge: Judge, name: str) -> None:
    query = "SELECT vartype, unit FROM pg_settings WHERE name = %s"
    row = judge.execute(query, (name,)).fetchone()
    if row is None:
        pytest.skip(f"this version has no {name}")
    taken = {text: value for text in NOTATIONS[name] if (value := shown(judge, name, text))}
    assert taken
    values = sorted(set(taken.values()))
    wrong = [
        (text, value)
        for text in taken
        for value in values
        if same_value(name, text, value, *row) != (taken[text] == value)
        and not (name == "wal_compression" and text in {"on", "true", "1"} and value in METHODS)
    ]
    assert wrong == []
    assert all(same_value(name, text, value, *row) for text, value in taken.items())


@pytest.mark.parametrize("name", sorted(NOTATIONS.keys() - ENUMS))
def test_what_the_server_refuses_is_never_the_same(judge: Judge, name: str) -> None:
    query = "SELECT vartype, unit, setting FROM pg_settings WHERE name = %s"
    row = judge.execute(query, (name,)).fetchone()
    assert row is not None
    vartype, unit, setting = row
    assert vartype != "enum"
    refused = [text for text in NOTATIONS[name] if shown(judge, name, text) is None]
    assert [text for text in refused if notation.same(name, text, setting, vartype, unit)] == []
