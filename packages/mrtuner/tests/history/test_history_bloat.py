"""Estimated bloat compared with pgstattuple's counts; and the use of sequences and slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from conftest import NewCluster
from history_data import sampled_rows

from mrtuner.postgres.cluster import Cluster
from servers import counted, sql

ROWS = 20_000
#: The columns of each table; freshly written, they leave no free space that could be used.
TABLES = {
    "accounts": "n AS id, n % 10 AS branch, 0 AS balance, repeat('x', 84)::char(84) AS filler",
    # Columns that have to be aligned: 1 + 7, 8, 2 + 6, 8 bytes.
    "aligned": "true AS flag, n::bigint AS id, 1::smallint AS kind, now() AS at",
    "words": "n::bigint AS id, repeat('x', n % 60) AS note, n AS number, now() AS at, "
             "repeat('y', n % 17) AS word",
    "nulls": "n AS id, CASE WHEN n % 2 = 0 THEN n::bigint END AS one, "
             "CASE WHEN n % 3 = 0 THEN repeat('z', 40) END AS other, "
             "NULL::text AS a, NULL::text AS b, NULL::text AS c, NULL::text AS d, 1 AS e, 2 AS f",
    "wide": "n AS id, repeat('x', 100 + n % 900) AS body, n AS number",
}  # fmt: skip
#: Largest accepted error of the estimate, as a share of the table.
CLOSE = 0.05


@pytest.fixture
def cluster(each_major: int, new_cluster: NewCluster) -> Cluster:
    return new_cluster(each_major, {"autovacuum": "off"})


def by_name(rows: list[dict[str, Any]]) -> Mapping[str, dict[str, Any]]:
    return {row["name"]: row for row in rows}  # no two have the same here


def wasted(cluster: Cluster, relation: str) -> tuple[int, int]:
    """Size, and free space plus dead rows [bytes], from reading every page."""
    ((size, free, dead),) = sql(
        cluster.dsn(),
        f"SELECT table_len, free_space, dead_tuple_len FROM pgstattuple('{relation}')",
    )
    return size, free + dead


def test_the_estimate_is_near_to_what_reading_all_pages_counts(cluster: Cluster) -> None:
    sql(cluster.dsn(), "CREATE EXTENSION pgstattuple")
    for name, columns in TABLES.items():
        counted(
            cluster.dsn(),
            f"CREATE TABLE {name} AS SELECT {columns} FROM generate_series(1, {ROWS}) AS n",
        )
        sql(cluster.dsn(), f"VACUUM ANALYZE {name}")
    fresh = by_name(sampled_rows(cluster, "bloat"))
    for name in TABLES:
        size, free = wasted(cluster, name)
        assert fresh[name]["bytes"] == size
        assert free / size < CLOSE, f"{name} is not as full as the test takes it to be"
        assert fresh[name]["bloat"] / size < CLOSE, name
    for name in TABLES:
        sql(cluster.dsn(), f"DELETE FROM {name} WHERE id % 10 < 7", f"VACUUM ANALYZE {name}")
    bloated = by_name(sampled_rows(cluster, "bloat"))
    for name in TABLES:
        size, free = wasted(cluster, name)
        assert free / size > 0.6, f"{name} was not made bloated"
        assert bloated[name]["bloat"] / size == pytest.approx(free / size, abs=CLOSE), name


#: Indexes of these tables in which no two rows have the same entry.
INDEXES = {
    "by_id": "accounts (id)",
    "by_aligned": "aligned (kind, id)",
    "by_word": "words (note, id)",
    "by_null": "nulls (one, other, id)",
    "by_expression": "words ((id * 7), at)",
}


def test_an_index_is_estimated_as_its_density_tells(cluster: Cluster) -> None:
    sql(cluster.dsn(), "CREATE EXTENSION pgstattuple")
    for name, columns in TABLES.items():
        sql(
            cluster.dsn(),
            f"CREATE TABLE {name} AS SELECT {columns} FROM generate_series(1, {ROWS}) AS n",
        )
    for name, columns in INDEXES.items():
        sql(cluster.dsn(), f"CREATE INDEX {name} ON {columns}")
    sql(cluster.dsn(), "CREATE INDEX repeated ON accounts (branch)", "VACUUM ANALYZE")
    fresh = by_name(sampled_rows(cluster, "bloat"))
    for name, columns in INDEXES.items():
        assert fresh[name]["bloat"] / fresh[name]["bytes"] < CLOSE, name
        assert fresh[name]["kind"] == "index"
        assert fresh[name]["table_name"] == columns.split()[0]
    for name in TABLES:
        sql(cluster.dsn(), f"DELETE FROM {name} WHERE id % 10 < 7", f"VACUUM ANALYZE {name}")
    bloated = by_name(sampled_rows(cluster, "bloat"))
    for name in [*INDEXES, "repeated"]:
        # pgstatindex does not count emptied pages as leaf pages.
        ((size, unfilled),) = sql(
            cluster.dsn(),
            "SELECT index_size, 1 - leaf_pages * 8192 * avg_leaf_density / 90 / index_size "
            f"FROM pgstatindex('{name}')",
        )
        assert unfilled > 0.5, f"{name} was not made bloated"
        assert bloated[name]["bytes"] == size
        share = bloated[name]["bloat"] / size
        if name == "repeated":
            assert share <= unfilled + CLOSE
        else:
            assert share == pytest.approx(unfilled, abs=CLOSE), name


def test_what_the_fillfactor_leaves_free_is_no_bloat(cluster: Cluster) -> None:
    sql(
        cluster.dsn(),
        "CREATE TABLE roomy (id int, number bigint) WITH (fillfactor = 60)",
        f"INSERT INTO roomy SELECT n, n FROM generate_series(1, {ROWS}) AS n",
        "VACUUM ANALYZE roomy", "CREATE EXTENSION pgstattuple",
    )  # fmt: skip
    size, free = wasted(cluster, "roomy")
    assert free / size > 0.35
    assert by_name(sampled_rows(cluster, "bloat"))["roomy"]["bloat"] / size < CLOSE


def test_a_toast_table_has_at_least_the_bloat_that_is_told(cluster: Cluster) -> None:
    """Values of five whole chunks, and of one chunk and a bit; two in three are deleted."""
    for name, length in (("whole", 5 * 1996), ("bit", 1996 + 300)):
        sql(
            cluster.dsn(),
            f"CREATE TABLE {name} (id int, body text)",
            f"ALTER TABLE {name} ALTER body SET STORAGE EXTERNAL",
            f"INSERT INTO {name} SELECT n, repeat('x', {length}) FROM generate_series(1, 900) AS n",
            f"DELETE FROM {name} WHERE id % 3 > 0", f"VACUUM ANALYZE {name}",
        )  # fmt: skip
    sql(cluster.dsn(), "CREATE EXTENSION pgstattuple")
    found = by_name(sampled_rows(cluster, "bloat"))
    for name, least in (("whole", 0.6), ("bit", 0.0)):
        ((toast,),) = sql(
            cluster.dsn(),
            f"SELECT reltoastrelid::regclass::text FROM pg_class WHERE relname = '{name}'",
        )
        size, free = wasted(cluster, toast)
        assert found[name]["toast_bytes"] == size
        assert least <= found[name]["toast_bloat"] / size <= free / size + 0.01, name


def test_what_is_not_known_is_null(each_major: int, cluster: Cluster) -> None:
    """Before the first ANALYZE, and to a role that may not read the table."""
    sql(
        cluster.dsn(), "CREATE ROLE monitor LOGIN IN ROLE pg_monitor",
        "CREATE TABLE new (id int)", "INSERT INTO new SELECT generate_series(1, 1000)",
        "CREATE TABLE old (id int, b text)", "INSERT INTO old SELECT generate_series(1, 1000), 'b'",
        "ANALYZE old", "ALTER TABLE old DROP COLUMN b", "CREATE TABLE empty ()",
    )  # fmt: skip
    found = by_name(sampled_rows(cluster, "bloat"))
    assert found["new"]["bloat"] is None
    assert found["old"]["bloat"] is not None
    assert found["empty"]["bloat"] is None
    hidden = by_name(sampled_rows(cluster, "bloat", "monitor"))
    assert hidden["old"]["bytes"] == found["old"]["bytes"] > 0
    assert hidden["old"]["bloat"] is None
    if each_major >= 14:
        sql(cluster.dsn(), "GRANT pg_read_all_data TO monitor")
        assert by_name(sampled_rows(cluster, "bloat", "monitor")) == found


def test_a_sequence_ends_where_it_or_its_column_does(each_major: int, cluster: Cluster) -> None:
    sql(
        cluster.dsn(), "CREATE ROLE monitor LOGIN IN ROLE pg_monitor",
        "CREATE TABLE orders (id serial, small smallserial, "
        "big bigint GENERATED ALWAYS AS IDENTITY)",
        # As after an upgrade from before 10: the sequence is a bigint, its column is not.
        "ALTER SEQUENCE orders_id_seq AS bigint",
        "SELECT setval('orders_id_seq', 1500000000)", "SELECT setval('orders_small_seq', 32767)",
        "SELECT nextval('orders_big_seq')",
        "CREATE SEQUENCE unused", "CREATE SEQUENCE round_and_round MAXVALUE 3 CYCLE",
        "CREATE SEQUENCE down INCREMENT -1",
    )  # fmt: skip
    rows = sampled_rows(cluster, "sequences")
    found = {row["name"]: (row["used_by"], row["used"], row["maximum"]) for row in rows}
    assert found == {
        "orders_id_seq": ("public.orders.id", 0.698, 2**31 - 1),  # 1.5 of 2.147 bn
        "orders_small_seq": ("public.orders.small", 1.0, 2**15 - 1),
        "orders_big_seq": ("public.orders.big", 0.0, 2**63 - 1),
        "unused": (None, None, 2**63 - 1),
    }
    hidden = sampled_rows(cluster, "sequences", "monitor")
    assert {row["used"] for row in hidden} == {None}
    if each_major >= 14:
        sql(cluster.dsn(), "GRANT pg_read_all_data TO monitor")
        assert sampled_rows(cluster, "sequences", "monitor") == rows


def test_a_slot_tells_how_much_of_what_it_may_keep_it_keeps(
    each_major: int, new_cluster: NewCluster
) -> None:
    limited = new_cluster(each_major, {"max_slot_wal_keep_size": "96MB", "max_wal_size": "64MB"})
    sql(limited.dsn(), "SELECT pg_create_physical_replication_slot('gone', true)",
        "CREATE TABLE t (body text)")  # fmt: skip
    (before,) = sampled_rows(limited, "slots")
    for _ in range(2):
        sql(limited.dsn(), "INSERT INTO t SELECT repeat('x', 1000) FROM generate_series(1, 16000)")
    (after,) = sampled_rows(limited, "slots")
    assert before["used"] < 0.1
    # At least 32 MB of WAL, out of 96 MB plus the rest of a 16 MB segment.
    assert 0.28 < after["used"] < 0.6
    sql(limited.dsn(), "ALTER SYSTEM SET max_slot_wal_keep_size = -1", "SELECT pg_reload_conf()")
    for _ in range(200):
        (unlimited,) = sampled_rows(limited, "slots")
        if unlimited["safe"] is None:
            break
    assert unlimited["used"] is None
