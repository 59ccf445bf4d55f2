"""Each trouble is found first or second, with its remedy; a healthy server has none."""

from __future__ import annotations

import re
from contextlib import ExitStack

import psycopg
import pytest
from conftest import NewCluster
from troubles import TROUBLES, Trouble

from mrtuner.answers import check
from mrtuner.checks.report import CheckReport
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory
from servers import debian_binaries, sql

pytestmark = pytest.mark.timed


def checked(cluster: Cluster, user: str = "postgres") -> CheckReport:
    # The disk of the machine that the tests run on may be nearly full.
    return check(cluster.dsn(user=user), skip=["free-space"], memory="8GB", cpus=4, storage="ssd")


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.id)
def test_a_trouble_is_found_and_its_remedy_heals_it(
    trouble: Trouble, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(trouble.major, trouble.settings)
    with ExitStack() as stack:
        trouble.plant(cluster, stack)
        answer = checked(cluster)
        found = [one for one in answer.findings[:2] if one.id == trouble.id]
        assert found, answer.findings
        assert found[0].severity == trouble.severity
        assert re.search(trouble.says, found[0].sentence), found[0].sentence
        assert trouble.remedy in " ".join(found[0].remedy)
        assert "secret" not in str(answer)  # no literal of a statement
        if trouble.heals:
            with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
                for text in found[0].commands:
                    conn.execute(text.encode())
            assert trouble.id not in {one.id for one in checked(cluster).findings}


def test_a_reload_is_no_remedy_while_a_line_of_the_files_stops_it(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18)
    with (cluster.data / "postgresql.conf").open("a") as file:
        file.write("no_such_setting = 1\nwork_mem = 12MB\n")
    sql(cluster.dsn(), "SELECT pg_reload_conf()")
    assert sql(cluster.dsn(), "SHOW work_mem") == [("4MB",)]
    errors, edited = checked(cluster).findings
    assert (errors.id, edited.id) == ("configuration-errors", "not-reloaded")
    reload = "SELECT pg_reload_conf();"
    assert edited.remedy == ("Correct the lines that cannot be used first, then:", reload)
    assert edited.commands == errors.commands == (reload,)


def test_indexes_are_rebuilt_before_a_version_of_a_collation_is_taken_note_of() -> None:
    """Refreshed alone, the danger would be silent and the indexes out of order."""
    with Cluster.create(debian_binaries(18), scratch_directory()) as cluster:
        sql(
            cluster.dsn(),
            "CREATE COLLATION german (provider = icu, locale = 'de')",
            "CREATE TABLE words (word text COLLATE german PRIMARY KEY, number int, "
            "EXCLUDE USING btree (number WITH =), "
            "CONSTRAINT once EXCLUDE USING btree (word WITH =))",
            "UPDATE pg_collation SET collversion = '1' WHERE collname = 'german'",
        )
        (found,) = (one for one in checked(cluster).findings if one.id == "collation-changed")
        said = "collation public.german was made with version 1 of its library"
        assert found.text.startswith(said)
        reindex, skipped, refresh = found.commands
        assert reindex == 'REINDEX DATABASE CONCURRENTLY "postgres";'
        assert refresh == 'ALTER COLLATION "public"."german" REFRESH VERSION;'
        file = "SELECT pg_relation_filenode('{}')"
        before = [sql(cluster.dsn(), file.format(name)) for name in ("words_pkey", "once")]
        with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
            conn.execute(reindex.encode())
            after = [sql(cluster.dsn(), file.format(name)) for name in ("words_pkey", "once")]
            assert [one != other for one, other in zip(before, after, strict=True)] == [True, False]
            assert conn.execute(skipped.encode()).fetchall() == [("once",)]
            conn.execute(refresh.encode())
        assert "collation-changed" in checked(cluster).passed
    cluster.remove()


def test_a_library_without_versions_is_another_one(new_cluster: NewCluster) -> None:
    """As where musl opens what glibc sorted: here C, which has no version either."""
    cluster = new_cluster(18)
    sql(
        cluster.dsn(),
        "CREATE DATABASE shop LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0",
        "UPDATE pg_database SET datcollversion = '2.36' WHERE datname = 'shop'",
        "CREATE COLLATION plain (provider = libc, locale = 'C')",
        "CREATE TABLE words (word text COLLATE plain)",
        "UPDATE pg_collation SET collversion = '2.36' WHERE collname = 'plain'",
    )
    found = [one for one in checked(cluster).findings if one.id == "collation-changed"]
    said = "{} was made with version 2.36 of its library, and the one here has no version"
    assert {one.text for one in found} == {
        said.format("collation public.plain"), said.format("database shop"),
    }  # fmt: skip
    for one in found:
        assert one.severity == "danger"
        assert one.commands == ()  # a REFRESH fails
        assert "library that it was made with" in one.remedy[0]
