"""Changes of schemas: what a real server shows from one sample to the next, told in sentences."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from conftest import NewCluster
from history_data import MIDNIGHT, SECOND, sampled
from history_story import INSTANCE, of_source, sample

from mrtuner.answers import history, query
from mrtuner.history.recording.sampler import Sampler, SourceSample
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Batch, Writer
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from servers import sql
from waiting import until


def seen(cluster: Cluster, minute: int) -> SourceSample:
    """A sample of the server as it is now, at that minute after midnight."""
    found = sampled(cluster, "relations")
    return replace(found, at=MIDNIGHT + minute * 60 * SECOND, monotonic=minute * 60.0)


def told(place: Path, *samples: SourceSample) -> list[str]:
    """The changes of a store with these samples."""
    last = sample("connections", 3600)  # a period ends before the last sample
    with Writer(place, built_in().values()) as writer:
        writer.commit([Batch(instance=INSTANCE, samples=(*samples, last))])
    changes = history(place, since="1d").changes
    assert {one.what for one in changes} <= {"schema"}
    return [f"{one.at:%H:%M} {one.detail}" for one in changes]


def test_a_setting_changed_when_its_file_was_read_and_not_when_it_was_sampled(
    tmp_path: Path,
) -> None:
    """Read at 00:17:30.5 and sampled at 00:18; without a reload, the sample's time is all."""

    def settings(minute: int, loaded: float, **values: str) -> SourceSample:
        rows = (of_source("settings", name=name, value=one) for name, one in values.items())
        version = of_source("settings", name="server_version", value="18.6", loaded=loaded)
        return sample("settings", minute * 60, *rows, version)

    midnight = MIDNIGHT / SECOND
    taken = [
        settings(0, midnight - 900, jit="on", work_mem="4096"),
        settings(18, midnight + 17 * 60 + 30.5, jit="off", work_mem="4096"),
        settings(30, midnight + 17 * 60 + 30.5, jit="off", work_mem="8192"),
    ]
    with Writer(tmp_path, built_in().values()) as writer:
        writer.commit([Batch(instance=INSTANCE, samples=(*taken, sample("connections", 3600)))])
    found = [(f"{one.at:%H:%M:%S.%f}", one.detail) for one in history(tmp_path, since="1d").changes]
    assert found == [
        ("00:17:30.500000", "jit: on → off"),
        ("00:30:00.000000", "work_mem: 4096 → 8192"),
    ]


def test_a_secret_that_an_older_recorder_stored_is_not_told(tmp_path: Path) -> None:
    """Neither as a change nor by a query: the hashes are worked out with sha256sum."""

    def settings(hour: int, key: str, salt: str) -> SourceSample:
        values = {"archive_command": f"AWS_SECRET_ACCESS_KEY={key} wal-g wal-push %p",
                  "anon.salt": salt, "restore_command": "", "jit": "on"}  # fmt: skip
        rows = (of_source("settings", name=name, value=one) for name, one in values.items())
        return sample("settings", hour * 3600, *rows)

    with Writer(tmp_path, built_in().values()) as writer:
        writer.commit([Batch(instance=INSTANCE, samples=(
            settings(0, "hunter2", "salt1"), settings(1, "hunter3", "salt2"),
            sample("connections", 7200)))])  # fmt: skip
    assert sorted(one.detail for one in history(tmp_path, since="1d").changes) == [
        "anon.salt: (set, dc) → (set, db)",
        "archive_command: (set, 61) → (set, d0)",
    ]
    for table in ("settings", "copy_all_settings"):
        asked = f"SELECT name, value FROM {table} WHERE value LIKE '%hunter%' -- of settings"
        assert query(asked, tmp_path).rows == []


def test_a_server_tells_when_it_read_its_files(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    with connect(cluster.dsn()) as conn:
        sampler = Sampler(conn)
        sampler.prepare()
        before = time.time()
        sql(cluster.dsn(), "ALTER SYSTEM SET work_mem = '64MB'", "SELECT pg_reload_conf()")
        until(lambda: conn.execute("SHOW work_mem").fetchone() == ("64MB",))
        after = time.time()
        found = sampler.sample(built_in()["settings"])
    assert found is not None, sampler.missing
    name, loaded = (
        [column.name for column in found.source.columns].index(one) for one in ("name", "loaded")
    )
    ((of, at),) = [
        (row.values[name], row.values[loaded])
        for row in found.rows if row.values[loaded] is not None
    ]  # fmt: skip
    assert of == "server_version"
    assert before - 0.001 <= at <= after + 0.001  # it is kept in milliseconds


def failed_build(cluster: Cluster) -> None:
    with suppress(psycopg.errors.UniqueViolation):
        sql(cluster.dsn(), "CREATE UNIQUE INDEX CONCURRENTLY failed ON orders (shop)")


def statements(*texts: str) -> Callable[[Cluster], None]:
    def run(cluster: Cluster) -> None:
        sql(cluster.dsn(), *texts)

    return run


STEPS: list[tuple[Callable[[Cluster], None], list[str]]] = [
    (statements("DROP INDEX by_shop"), ["index public.by_shop of orders was dropped"]),
    (statements("CREATE INDEX again ON orders (shop)"),
     ["index public.again of orders was created"]),
    (failed_build, ["index public.failed of orders was created, and is invalid"]),
    (statements("DROP INDEX failed"), ["index public.failed of orders was dropped"]),
    (statements("REINDEX INDEX again"), ["index public.again of orders was rebuilt"]),
    (statements("REINDEX INDEX CONCURRENTLY again"),
     ["index public.again of orders was rebuilt"]),
    (statements("VACUUM FULL orders"), ["table public.orders was rewritten"]),
    (statements("ALTER TABLE orders ALTER id TYPE bigint"), ["table public.orders was rewritten"]),
    (statements("ALTER INDEX again RENAME TO renamed"),
     ["index public.again of orders was renamed to public.renamed"]),
    # A table that comes with its index, one that is emptied and filled, and one that goes.
    (statements("CREATE TABLE part (id int PRIMARY KEY)"), []),
    (statements("TRUNCATE staging", "INSERT INTO staging SELECT generate_series(1, 1000)"), []),
    (statements("VACUUM ANALYZE staging"), []),
    (statements("DROP TABLE part"), []),
    (statements("CREATE TEMPORARY TABLE mine (id int PRIMARY KEY)"), []),
    (statements("CREATE INDEX one ON orders (id)", "CREATE INDEX two ON orders (id, shop)"),
     ["2 indexes were created: public.one of orders, public.two of orders"]),
]  # fmt: skip


def test_what_changed_in_a_schema_is_told_and_what_comes_and_goes_each_night_is_not(
    each_major: int, new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster(each_major)
    sql(
        cluster.dsn(),
        "CREATE TABLE orders (id int PRIMARY KEY, shop int)",
        "INSERT INTO orders SELECT n, 1 FROM generate_series(1, 1000) AS n",
        "CREATE INDEX by_shop ON orders (shop)",
        "CREATE TABLE staging (id int PRIMARY KEY)",
        "INSERT INTO staging SELECT generate_series(1, 1000)",
        "VACUUM ANALYZE",
    )
    samples = [seen(cluster, 0)]
    expected = []
    for minute, (happens, sentences) in enumerate(STEPS, 1):
        happens(cluster)
        samples.append(seen(cluster, minute))
        expected += [f"00:{minute:02} {one} (database postgres)" for one in sentences]
    assert told(tmp_path, *samples) == expected


def relations(minute: int, *indexes: str, valid: bool = True, shop: str = "shop") -> SourceSample:
    """A table with its indexes, as the source shows them."""
    common = {"database": shop, "schema": "public", "table_name": "orders", "empty": False}
    return sample(
        "relations", minute * 60,
        of_source("relations", name="orders", kind="table", relation=1, file=1, **common),
        *(of_source("relations", name=name, kind="index", relation=10 + number, file=10 + number,
                    valid=valid, **common)
          for number, name in enumerate(indexes)),
    )  # fmt: skip


def test_an_index_that_becomes_invalid_or_valid_is_told(tmp_path: Path) -> None:
    assert told(tmp_path, relations(0, "a"), relations(1, "a", valid=False), relations(2, "a")) == [
        "00:01 index public.a of orders was found invalid (database shop)",
        "00:02 index public.a of orders was found valid again (database shop)",
    ]


def test_many_indexes_at_once_make_one_sentence(tmp_path: Path) -> None:
    names = ["a", "b", "c", "d", "e"]
    assert told(tmp_path, relations(0, *names), relations(1)) == [
        "00:01 5 indexes were dropped: public.a of orders, public.b of orders, public.c of orders "
        "and 2 more (database shop)"
    ]


def test_names_of_others_are_quoted(tmp_path: Path) -> None:
    assert told(
        tmp_path, relations(0, "x; DROP", shop="my shop"), relations(1, shop="my shop")
    ) == ['00:01 index public."x; DROP" of orders was dropped (database "my shop")']


def test_a_database_that_is_recorded_later_or_dropped_changed_nothing(tmp_path: Path) -> None:
    first, both = relations(0, "a"), relations(1, "b", shop="crm")
    both = replace(both, rows=(*first.rows, *both.rows))
    assert told(tmp_path, first, both, relations(2, "a")) == []


@pytest.mark.parametrize("later", [1, 2])
def test_a_slower_statement_is_told_with_the_index_that_went_just_before(
    tmp_path: Path, later: int
) -> None:
    """100 calls a minute take 10 ms each, and from minute 20 on 900 ms: 1.5 sessions.

    The index goes within minute 20; a sample shows it up to a minute after that of the statements.
    """
    samples = [relations(0, "by_shop"), relations(20 + later)]
    calls, spent = 0, 0.0
    for minute in range(40):
        calls += 100
        spent += 100 * (900.0 if minute > 20 else 10.0)
        row = of_source("statements", database="shop", role="web", query_id=9, toplevel=True,
                        calls=calls, exec_ms=spent, rows=calls)  # fmt: skip
        samples.append(sample("statements", minute * 60, row))
    with Writer(tmp_path, built_in().values()) as writer:
        writer.commit([Batch(instance=INSTANCE, samples=tuple(samples), texts={9: "SELECT 1"})])
    (found,) = history(tmp_path, since="1h").incidents
    assert found.text == (
        "SELECT 1 took 900 ms per call instead of 10 ms; just before: index public.by_shop of "
        "orders was dropped (database shop)"
    )
    assert found.query_id == 9
