"""What the server refuses is missing, and the rest is read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import psycopg
import pytest
from conftest import NewCluster

from mrtuner.answers import check, tune, vacuum
from mrtuner.checks.read import read
from mrtuner.facts import Missing
from mrtuner.postgres.connect import any_bytes, connect
from mrtuner.postgres.named_queries import Reader
from mrtuner.tuning.gather import flags
from mrtuner.vacuum.apply import wanted
from servers import sql
from waiting import until

pytestmark = pytest.mark.timed


def test_what_was_dropped_meanwhile_is_missing_and_the_session_goes_on(
    each_major: int, new_cluster: NewCluster
) -> None:
    """A snapshot has a database that is gone: pg_database_size fails with 3D000."""
    cluster = new_cluster(each_major)
    sql(cluster.dsn(), "CREATE DATABASE gone", "CREATE ROLE watcher LOGIN IN ROLE pg_monitor")
    with connect(cluster.dsn(user="watcher")) as conn:
        reader = Reader(conn, conn.info.server_version)
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        ((oid,),) = conn.execute("SELECT oid FROM pg_database WHERE datname = 'gone'").fetchall()
        sql(cluster.dsn(), "DROP DATABASE gone")
        assert reader.rows_if_allowed("databases", "databases") == []
        assert reader.missing == [
            Missing(
                "databases", f"database with OID {oid} does not exist",
                hint="Run again: it may have been dropped meanwhile.",
            )
        ]  # fmt: skip
        assert reader.row("check_now")["database"] == "postgres"


def test_a_session_that_ended_is_no_missing_fact(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18)
    with connect(cluster.dsn()) as conn:
        reader = Reader(conn, conn.info.server_version)
        sql(cluster.dsn(), f"SELECT pg_terminate_backend({conn.info.backend_pid}, 5000)")
        with pytest.raises(psycopg.OperationalError):
            reader.rows_if_allowed("databases", "databases")
        assert reader.missing == []


@pytest.mark.parametrize("major", [13, 18])
def test_names_in_no_encoding_are_told_and_end_nothing(major: int, new_cluster: NewCluster) -> None:
    """A SQL_ASCII database holds any bytes, and every database sees its databases and roles.

    40,000 rows of 36 bytes are more than 1 MB.
    """
    cluster = new_cluster(major)
    sql(cluster.dsn(), "CREATE DATABASE bytes ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    dsn = cluster.dsn("bytes")
    with psycopg.connect(dsn, autocommit=True, client_encoding="SQL_ASCII") as conn:
        for statement in (
            b'CREATE TABLE "caf\xe9" (a int) WITH (autovacuum_enabled = off)',
            b'INSERT INTO "caf\xe9" SELECT generate_series(1, 40000)',
            b'CREATE TABLE "na\xefve" (id int PRIMARY KEY, "\xfc" int)',
            'CREATE INDEX "größe" ON "na'.encode() + b'\xefve" ("\xfc")',
            b'CREATE INDEX again ON "na\xefve" ("\xfc")',
            b'CREATE SEQUENCE "n\xba" MAXVALUE 100', b"SELECT setval('\"n\xba\"', 95)",
            b'CREATE ROLE "ren\xe9e" LOGIN PASSWORD \'x\' VALID UNTIL \'tomorrow\'',
            b'ALTER ROLE "ren\xe9e" SET random_page_cost = 9',
            b'CREATE DATABASE "\xe9t\xe9"',
        ):  # fmt: skip
            conn.execute(statement)
    role = 'random_page_cost is 9 for role "ren\ufffde"; the advice for the server is 1.1'
    given: dict[str, Any] = {"memory": "8GB", "cpus": 4, "storage": "ssd"}
    for database in ("bytes", "postgres"):
        answer = check(cluster.dsn(database), skip=["free-space"], **given)
        told = [one.text for one in answer.findings]
        assert role in told, told
        assert answer.unjudged == ()
        assert tune(cluster.dsn(database))["work_mem"].value
        assert vacuum(cluster.dsn(database)).picture.database == database
    found = {one.id: one for one in check(dsn, skip=["free-space"], **given).findings}
    assert found["never-analyzed"].text == '1 table without statistics: public."caf\ufffd"'
    assert found["sequence-exhausted"].text == (
        '95% of sequence public."n\ufffd" is used: 5 numbers are left'
    )
    assert 'public.again of public."na\ufffdve"' in found["duplicate-index"].evidence[0]
    assert found["duplicate-index"].evidence[0].endswith("the same as größe")
    (sample,) = vacuum(dsn).picture.samples
    assert {one.name for one in sample.tables} == {"caf\ufffd", "na\ufffdve"}


def test_no_command_has_a_name_that_may_be_that_of_something_else(new_cluster: NewCluster) -> None:
    """Two indexes and a table are shown with the same names as others have."""
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE DATABASE bytes ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    dsn = cluster.dsn("bytes")
    with psycopg.connect(dsn, autocommit=True, client_encoding="SQL_ASCII") as conn:
        for statement in (
            b'CREATE TABLE "caf\xe9" (a int) WITH (autovacuum_enabled = off)',
            b'INSERT INTO "caf\xe9" SELECT generate_series(1, 40000)',
            b'CREATE INDEX "gr\xe9" ON "caf\xe9" (a)', b'CREATE INDEX "gr\xe8" ON "caf\xe9" (a)',
            b'CREATE ROLE "ren\xe9e"', b'ALTER ROLE "ren\xe9e" SET random_page_cost = 9',
        ):  # fmt: skip
            conn.execute(statement)
    by_hand = (
        "Complete by hand, since \ufffd stands for what is no text here (in psql: "
        r"\encoding SQL_ASCII, then format('%I', …) over the catalog and \gexec): "
    )
    found = check(dsn, skip=["free-space"], memory="8GB", cpus=4, storage="ssd").findings
    told = {one.id: one for one in found}
    for kind, command in (
        ("duplicate-index", 'DROP INDEX CONCURRENTLY "public"."gr\ufffd";'),
        ("never-analyzed", 'ANALYZE "public"."caf\ufffd";'),
        ("override-undoes-advice",
         'ALTER ROLE "ren\ufffde" RESET random_page_cost;  -- if nobody needs it'),
    ):  # fmt: skip
        assert told[kind].remedy[-1] == by_hand + command
        assert told[kind].commands == ()
    advised = vacuum(dsn)
    assert advised.as_sql().splitlines()[-1] == (
        f'-- {by_hand}ALTER TABLE "public"."caf\ufffd" SET (autovacuum_enabled = true);'
    )
    assert wanted(advised) == {}


def test_a_statement_in_no_encoding_hides_no_lock_queue(new_cluster: NewCluster) -> None:
    """A database in UTF-8, or in another encoding, sees the statements of all."""
    cluster = new_cluster()
    for name, encoding in (("bytes", "SQL_ASCII"), ("japanese", "EUC_JP")):
        sql(
            cluster.dsn(),
            f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0",
        )
    sql(cluster.dsn("bytes"), "CREATE TABLE t (a int)")
    with (
        psycopg.connect(cluster.dsn("bytes")) as first,
        psycopg.connect(cluster.dsn("bytes"), client_encoding="SQL_ASCII") as second,
        ThreadPoolExecutor() as others,
    ):
        first.execute("LOCK TABLE t")
        waiting = others.submit(second.execute, b"LOCK TABLE t /* \xe9 */")
        until(
            lambda: sql(cluster.dsn(), "SELECT count(*) FROM pg_locks WHERE NOT granted") == [(1,)]
        )
        for database in ("bytes", "japanese", "postgres"):
            state = read(cluster.dsn(database), flags(memory="8GB"))
            assert "sessions" not in state.missing
            assert {one.pid for one in state.sessions} == {
                first.info.backend_pid, second.info.backend_pid,
            }  # fmt: skip
        first.rollback()
        waiting.result()


@pytest.mark.parametrize(
    ("major", "encoding", "name"),
    [
        # UTF-8 has 0xc3 0x81 for the first letter: Windows-1252 has 0xc3 alone, EUC-JP neither.
        (18, "WIN1252", "\u00c3\ufffdbel"),
        (18, "EUC_JP", "\ufffd\ufffdbel"),
        (13, "WIN1252", "\u00c3\ufffdbel"),
        (18, "EUC_TW", "\u00c1bel"),  # Python has no codec for it
    ],
)
def test_names_in_another_encoding_than_the_databases_end_nothing(
    major: int, encoding: str, name: str, new_cluster: NewCluster
) -> None:
    """The role was named in a database in UTF-8; the server cannot convert its name."""
    cluster = new_cluster(major)
    sql(
        cluster.dsn(), 'CREATE ROLE "Ábel"', 'ALTER ROLE "Ábel" SET random_page_cost = 9',
        f"CREATE DATABASE other ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0",
    )  # fmt: skip
    dsn = cluster.dsn("other")
    given: dict[str, Any] = {"memory": "8GB", "cpus": 4, "storage": "ssd"}
    answer = check(dsn, skip=["free-space"], **given)
    assert tune(dsn)["work_mem"].value
    assert vacuum(dsn).picture.database == "other"
    told = [one.text for one in answer.findings if one.id == "override-undoes-advice"]
    shown = name if name.isalpha() else f'"{name}"'
    assert told == [f"random_page_cost is 9 for role {shown}; the advice for the server is 1.1"]
    assert answer.unjudged == ()


@pytest.mark.parametrize(
    ("encoding", "stored"),
    [("WIN1252", b"\xe9"), ("EUC_JP", b"\x8f\xab\xb1"), ("UTF8", b"\xc3\xa9")],
)
def test_what_is_read_as_it_is_stored_is_asked_for_in_the_same_encoding(
    encoding: str, stored: bytes, new_cluster: NewCluster
) -> None:
    cluster = new_cluster()
    sql(cluster.dsn(), f"CREATE DATABASE other ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    with connect(cluster.dsn("other")) as conn:
        for reads in (any_bytes(conn), nullcontext()):
            with reads:
                assert conn.execute(
                    "SELECT convert_to(%s, pg_catalog.getdatabaseencoding()), to_jsonb(%s::text), "
                    "ARRAY[%s]", ["é", "é", "é"],
                ).fetchall() == [(stored, "é", ["é"])]  # fmt: skip
        with any_bytes(conn):  # a name that was not read whole finds nothing
            assert conn.execute(
                "SELECT count(*) FROM pg_class WHERE relname = ANY (%s)", [["x\ufffd"]]
            ).fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("encoding", "why"),
    [
        ("UTF8", 'invalid byte sequence for encoding "UTF8"'),
        ("WIN1252", 'encoding "UTF8" has no'),
    ],
)
def test_what_the_server_cannot_convert_is_missing_with_a_hint_on_encodings(
    encoding: str, why: str, new_cluster: NewCluster
) -> None:
    """pg_stat_statements converts the texts of all databases to the encoding of this one."""
    cluster = new_cluster(18, {"shared_preload_libraries": "pg_stat_statements"})
    for name, of in (("bytes", "SQL_ASCII"), ("other", encoding)):
        sql(cluster.dsn(), f"CREATE DATABASE {name} ENCODING '{of}' LOCALE 'C' TEMPLATE template0")
    sql(cluster.dsn("other"), "CREATE EXTENSION pg_stat_statements")
    if encoding == "UTF8":
        with psycopg.connect(cluster.dsn("bytes"), client_encoding="SQL_ASCII") as conn:
            conn.execute(b'SELECT 1 AS "caf\xe9"')
    else:
        sql(cluster.dsn(), 'SELECT 1 AS "日"')
    every = sql(cluster.dsn("other"), "SELECT queryid FROM pg_stat_statements(false)")
    with connect(cluster.dsn("other")) as conn, any_bytes(conn):
        reader = Reader(conn, conn.info.server_version)
        values = [[row[0] for row in every]]
        assert reader.rows_if_allowed("statement_texts", "texts", values=values) == []
        (missing,) = reader.missing
        assert why in missing.why
        assert missing.hint == "Connect to a database with the same encoding as the others."


def test_a_database_without_an_encoding_is_written_to_as_usual_after_it_was_read(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE DATABASE bytes ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    with connect(cluster.dsn("bytes")) as conn:
        with any_bytes(conn), any_bytes(conn):
            assert conn.execute(b"SELECT '\xe9'").fetchall() == [("\ufffd",)]
            assert conn.execute(b"SELECT to_jsonb('\xe9'::text)").fetchall() == [("\ufffd",)]
            assert conn.execute(b"SELECT ARRAY['\xe9']").fetchall() == [(["\ufffd"],)]
            assert conn.execute(
                "SELECT relkind, 'pg_class'::regclass FROM pg_class LIMIT 1"
            ).fetchall()
        assert conn.execute("SELECT 'é'").fetchall() == [("é",)]
