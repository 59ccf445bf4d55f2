"""Troubles as public incident reports tell them, each planted on a server of its own.

Sources: the kinds are those of PostgreSQL's documentation (Routine Vacuuming, Replication Slots,
Monitoring Locks, Synchronous Replication) and of postmortems that were published: forgotten
transactions and lock queues behind DDL (GoCardless 2015), integer keys that ran out (Basecamp
2018), wraparound (Sentry 2015, Joyent 2015), slots and archives that filled a disk, sequences, and
a failed CREATE INDEX CONCURRENTLY.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Thread

import psycopg

from mrtuner.postgres.cluster import Cluster
from servers import counted, sql
from waiting import until

Planted = Callable[[Cluster, ExitStack], None]


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What is planted, and what the answer must say first or second."""

    id: str
    severity: str
    says: str  # a regular expression for the finding's sentence
    remedy: str  # what its remedies must contain
    plant: Planted
    settings: Mapping[str, str | int] = field(default_factory=dict)
    heals: bool = False  # its commands, run as they are, make the finding disappear
    major: int = 18


def _sql(*statements: str) -> Planted:
    def plant(cluster: Cluster, _stack: ExitStack) -> None:
        counted(cluster.dsn(), *statements)

    return plant


def _nothing(_cluster: Cluster, _stack: ExitStack) -> None:
    return


def _table(cluster: Cluster) -> None:
    sql(
        cluster.dsn(),
        "CREATE TABLE orders (id int PRIMARY KEY, who text)",
        "INSERT INTO orders SELECT n, 'somebody' FROM generate_series(1, 2000) AS n",
        "ANALYZE orders",
    )


def _session(cluster: Cluster, stack: ExitStack, name: str) -> psycopg.Connection[tuple[object]]:
    conn = psycopg.connect(cluster.dsn(), application_name=name)
    stack.callback(conn.close)
    return conn


_PREVENTS_WRAPAROUND = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE query LIKE 'autovacuum: % public.orders (to prevent wraparound)'"
)
_READ = "SELECT count(*) FROM orders WHERE who = 'a secret name'"


def _queue(cluster: Cluster, stack: ExitStack) -> None:
    """One session locks a table and does nothing; ten want it."""
    _table(cluster)
    holder = _session(cluster, stack, "nightly-import")
    holder.execute("LOCK TABLE orders")
    stack.enter_context(_waiting(cluster, 10))


def _vacuum_queue(cluster: Cluster, stack: ExitStack) -> None:
    """DDL waits for the vacuum that prevents wraparound, and ten readers for the DDL."""
    _table(cluster)
    sql(
        cluster.dsn(),
        # Without the usual vacuum, which would be as slow and come first.
        "ALTER TABLE orders SET (autovacuum_enabled = off, autovacuum_freeze_max_age = 100000, "
        "autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)",
        "INSERT INTO orders SELECT n, 'somebody' FROM generate_series(2001, 60000) AS n",
    )
    _burnt(110_000)(cluster, stack)
    until(lambda: sql(cluster.dsn(), _PREVENTS_WRAPAROUND) == [(1,)])
    stack.enter_context(_waiting(cluster, 1, "ALTER TABLE orders ADD COLUMN more int", "migration"))
    stack.enter_context(_waiting(cluster, 11, already=1))


@contextmanager
def _waiting(
    cluster: Cluster, number: int, statement: str = _READ, name: str = "shop", already: int = 0
) -> Iterator[None]:
    threads = [
        Thread(target=_wants, args=(cluster, statement, name)) for _ in range(number - already)
    ]
    for thread in threads:
        thread.start()
    until(lambda: sql(cluster.dsn(), _WAITING) == [(number,)])
    yield
    sql(cluster.dsn(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name IN ('nightly-import', 'shop', 'migration')")  # fmt: skip
    for thread in threads:
        thread.join()


_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


def _wants(cluster: Cluster, statement: str, name: str) -> None:
    with (
        suppress(psycopg.errors.AdminShutdown, psycopg.errors.QueryCanceled),
        psycopg.connect(cluster.dsn(), application_name=name) as conn,
    ):
        conn.execute(statement.encode())


def _prepared_queue(cluster: Cluster, stack: ExitStack) -> None:
    """A prepared transaction has locked a table; ten want it."""
    _table(cluster)
    with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
        for statement in ("BEGIN", "LOCK TABLE orders", "PREPARE TRANSACTION 'shop''s 17'"):
            conn.execute(statement.encode())
    stack.enter_context(_waiting(cluster, 10))


def _full_role(name: str) -> Planted:
    def plant(cluster: Cluster, stack: ExitStack) -> None:
        sql(cluster.dsn(), "CREATE ROLE app LOGIN CONNECTION LIMIT 5")
        for _ in range(5):
            stack.enter_context(psycopg.connect(cluster.dsn(user="app"), application_name=name))

    return plant


def _kept_wal(cluster: Cluster, _stack: ExitStack) -> None:
    counted(
        cluster.dsn(),
        "SELECT pg_create_physical_replication_slot('old_standby', true)",
        "SELECT count(pg_logical_emit_message(false, 'x', repeat('y', 1000000))) "
        "FROM generate_series(1, 60)",
    )


def _failing_archive(cluster: Cluster, _stack: ExitStack) -> None:
    sql(
        cluster.dsn(),
        "SELECT pg_logical_emit_message(true, 'x', 'y')",
        "SELECT pg_switch_wal()",
    )
    until(lambda: sql(cluster.dsn(), "SELECT failed_count > 0 FROM pg_stat_archiver") == [(True,)])


def _lost_program(cluster: Cluster, _stack: ExitStack) -> None:
    """The file that waits is made seven minutes old: so long none was archived, nor counted."""
    sql(
        cluster.dsn(),
        "SELECT pg_logical_emit_message(true, 'x', 'y')",
        "SELECT pg_switch_wal()",
    )
    (ready,) = (cluster.data / "pg_wal" / "archive_status").glob("*.ready")
    then = ready.stat().st_mtime - 420
    os.utime(ready, (then, then))
    log = cluster.directory / "log"
    until(lambda: "exit code 127" in log.read_text())
    assert sql(cluster.dsn(), "SELECT failed_count FROM pg_stat_archiver") == [(0,)]


def _failed_build(cluster: Cluster, _stack: ExitStack) -> None:
    _table(cluster)
    try:
        sql(cluster.dsn(), "CREATE UNIQUE INDEX CONCURRENTLY orders_who ON orders (who)")
    except psycopg.errors.UniqueViolation:
        return
    raise AssertionError("the index was built")


def _bad_line(cluster: Cluster, _stack: ExitStack) -> None:
    with (cluster.data / "postgresql.conf").open("a") as file:
        file.write("work_mem = 12XB\n")


def _edited(cluster: Cluster, _stack: ExitStack) -> None:
    """The same value in other words is no difference."""
    with (cluster.data / "postgresql.conf").open("a") as file:
        file.write("work_mem = 12MB\ncheckpoint_timeout = 300s\n")


def _forced_checkpoints(cluster: Cluster, _stack: ExitStack) -> None:
    """Each after 36 MB: of 64 MB, WAL forces one after 64 / 1.9 = 34 MB."""

    def requested() -> int:
        return int(sql(cluster.dsn(), "SELECT num_requested FROM pg_stat_checkpointer")[0][0])

    def enough(number: int) -> bool:
        return requested() >= number

    for number in range(requested() + 1, requested() + 14):
        sql(
            cluster.dsn(),
            "SELECT pg_logical_emit_message(false, 'x', repeat('y', 1000000)) "
            "FROM generate_series(1, 36)",
        )
        until(partial(enough, number), "a checkpoint")


def _burnt(transactions: int) -> Planted:
    def plant(cluster: Cluster, _stack: ExitStack) -> None:
        sql(
            cluster.dsn(),
            "CREATE PROCEDURE burn(n int) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..n LOOP "
            "PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$",
            "SET synchronous_commit = off",
            f"CALL burn({transactions})",
        )

    return plant


def _prepared(cluster: Cluster, stack: ExitStack) -> None:
    _table(cluster)
    with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
        conn.execute("BEGIN")
        conn.execute("UPDATE orders SET who = 'x' WHERE id = 1")
        conn.execute("PREPARE TRANSACTION 'payment-17'")
    _burnt(101_000)(cluster, stack)


def _damaged(cluster: Cluster, _stack: ExitStack, table: str = "orders") -> None:
    """A page of a table is overwritten while the server is down; then it is read."""
    _table(cluster)
    ((place,),) = sql(cluster.dsn(), f"SELECT pg_relation_filepath('{table}')")
    cluster.stop()
    with (cluster.data / str(place)).open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 500)
    cluster.start()
    try:
        sql(cluster.dsn(), f"SELECT * FROM {table}")
    except psycopg.errors.DataCorrupted:
        until(lambda: sql(cluster.dsn(), _FAILURES) != [(0,)])
        return
    raise AssertionError("the damage was not noticed")


def _damaged_for_all(cluster: Cluster, stack: ExitStack) -> None:
    _damaged(cluster, stack, "pg_shdescription")


def _uncounted(cluster: Cluster, _stack: ExitStack) -> None:
    """As pg_upgrade leaves a table: nobody knows of its rows. 100,000 rows of 36 bytes."""
    counted(
        cluster.dsn(),
        "CREATE TABLE old (a int) WITH (autovacuum_enabled = off)",
        "INSERT INTO old SELECT generate_series(1, 100000)",
    )
    counted(cluster.dsn(), "SELECT pg_stat_reset()")


def _leaves(cluster: Cluster, _stack: ExitStack) -> None:
    sql(
        cluster.dsn(),
        "CREATE TABLE root (a int, b int) PARTITION BY LIST (a)",
        "CREATE TABLE branch PARTITION OF root DEFAULT PARTITION BY LIST (b)",
        "CREATE TABLE leaf PARTITION OF branch DEFAULT",
        "INSERT INTO root SELECT n, n FROM generate_series(1, 10000) AS n",
        "ANALYZE leaf",
    )


def _damaged_where_hosted(cluster: Cluster, stack: ExitStack) -> None:
    sql(cluster.dsn(), "CREATE ROLE rds_superuser")
    _damaged(cluster, stack)


_FAILURES = "SELECT sum(checksum_failures)::int FROM pg_stat_database"

TROUBLES = (
    Trouble(
        id="lock-queue", severity="danger", plant=_queue, heals=True,
        says=r"10 sessions of shop wait for a lock of nightly-import \(process \d+\), "
        "idle in transaction",
        remedy="SELECT pg_terminate_backend(",
    ),
    Trouble(
        id="lock-queue", severity="danger", plant=_prepared_queue, heals=True,
        settings={"max_prepared_transactions": 5},
        says="10 sessions of shop wait for a lock of "
        "prepared transaction \"shop's 17\", prepared for",
        remedy="in database postgres and as role postgres or a superuser: "
        "ROLLBACK PREPARED 'shop''s 17';",
    ),
    Trouble(
        id="lock-queue", severity="danger", plant=_vacuum_queue, heals=True,
        settings={"autovacuum_naptime": "1s"},
        says=r"11 sessions of migration and shop wait for a lock of autovacuum worker \(process",
        remedy="let it go on, cancel what waits for it, and repeat that later: "
        "SELECT pg_cancel_backend(",
    ),
    Trouble(
        id="connections-near-limit", severity="danger", plant=_full_role("shop"), heals=True,
        says="5 of 5 connections of role app are in use", remedy="pool of shop (role app",
    ),
    Trouble(  # a name that a client chose is part of a sentence, and never of a command
        id="connections-near-limit", severity="danger", heals=True,
        plant=_full_role("x; DROP DATABASE postgres; --"),
        says="5 of 5 connections of role app are in use",
        remedy='pool of "x; DROP DATABASE postgres; --" (role app, database postgres), of which 5 '
        'are idle, or: ALTER ROLE "app" CONNECTION LIMIT 10;',
    ),
    Trouble(
        id="autovacuum-off", severity="danger", plant=_nothing, heals=True,
        settings={"autovacuum": "off"},
        says="autovacuum is off", remedy="ALTER SYSTEM SET autovacuum = on",
    ),
    Trouble(
        id="memory-overcommitted", severity="danger", plant=_nothing,
        settings={"work_mem": "2GB", "max_connections": 1000},
        says="can ask for .* times the 8 GB of memory", remedy="--lower",
    ),
    Trouble(
        id="durability-off", severity="danger", plant=_nothing, heals=True,
        settings={"fsync": "off"},
        says="fsync is off", remedy="ALTER SYSTEM SET fsync = on",
    ),
    *(
        Trouble(
            id="durability-off", severity="danger", plant=_nothing, heals=True,
            settings={name: "on"},
            says=f"{name} is on", remedy=f"ALTER SYSTEM SET {name} = off",
        )
        for name in ("zero_damaged_pages", "ignore_checksum_failure")
    ),
    Trouble(
        id="durability-off", severity="to know", plant=_nothing, heals=True,
        settings={"synchronous_commit": "off"},
        says="synchronous_commit is off: the last commits before a crash are lost",
        remedy="ALTER SYSTEM SET synchronous_commit = on",
    ),
    Trouble(
        id="configuration-errors", severity="danger", plant=_bad_line,
        says=r"1 line .*/postgresql\.conf:\d+: work_mem", remedy="pg_reload_conf()",
    ),
    *(
        Trouble(
            id="constraint-disabled", severity="to do", heals=True, major=major,
            plant=_sql("CREATE TABLE parent (id int PRIMARY KEY)",
                       "CREATE TABLE child (parent int CONSTRAINT \"of; it\" REFERENCES parent)",
                       "CREATE FUNCTION own() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'",
                       "CREATE TRIGGER own AFTER INSERT ON child EXECUTE FUNCTION own()",
                       "CREATE TRIGGER own AFTER INSERT ON parent EXECUTE FUNCTION own()",
                       "ALTER TABLE parent DISABLE TRIGGER USER",
                       "ALTER TABLE child DISABLE TRIGGER ALL"),
            says=r'not checked on public\.child, since their triggers are disabled: "of; it"',
            remedy="ENABLE TRIGGER",
        )
        for major in (13, 18)
    ),
    *(
        Trouble(
            id="invalid-database", severity="to do", heals=True, major=major,
            plant=_sql("CREATE DATABASE half", "UPDATE pg_database SET datconnlimit = -2 "
                       "WHERE datname = 'half'"),
            says="database half is invalid: its DROP was interrupted",
            remedy='DROP DATABASE "half";',
        )
        for major in (13, 18)
    ),
    Trouble(
        id="pending-restart", severity="to know",
        plant=_sql("ALTER SYSTEM SET max_connections = 77"),
        says=r"restart: max_connections: .*max_connections = 77 \(.*postgresql.auto.conf:\d+\); "
        "in force is 100", heals=True,
        remedy="ALTER SYSTEM RESET max_connections;",
    ),
    Trouble(
        id="not-reloaded", severity="to know", plant=_edited, heals=True,
        settings={"checkpoint_timeout": "5min"},
        says=r"force: work_mem: .*/postgresql\.conf:\d+: work_mem = 12MB, in force is 4MB",
        remedy="SELECT pg_reload_conf();",
    ),
    Trouble(
        id="standby-gone", severity="to do", heals=True,
        plant=_sql("SELECT pg_create_physical_replication_slot('berlin', true)"),
        says="no standby is attached, although there is a slot for one: berlin",
        remedy="SELECT pg_drop_replication_slot('berlin');",
    ),
    Trouble(
        id="next-start", severity="danger",
        plant=_sql("ALTER SYSTEM SET shared_preload_libraries = 'no_such_library'"),
        says="will not start again: .*no_such_library", remedy="",
    ),
    Trouble(
        id="slot-keeps-wal", severity="danger", plant=_kept_wal, heals=True,
        settings={"max_wal_size": "32MB", "min_wal_size": "32MB", "checkpoint_timeout": "1d"},
        says=r"slot old_standby is not in use and keeps 5\d\.\d MB of WAL",
        remedy="SELECT pg_drop_replication_slot('old_standby');",
    ),
    Trouble(  # its consumer loses WAL, and the disk is safe
        id="slot-keeps-wal", severity="to do", plant=_kept_wal, heals=True,
        settings={"max_wal_size": "32MB", "min_wal_size": "32MB", "checkpoint_timeout": "1d",
                  "max_slot_wal_keep_size": "1GB"},
        says=r"old_standby is not in use .*; beyond max_slot_wal_keep_size \(1 GB\) it loses WAL",
        remedy="SELECT pg_drop_replication_slot('old_standby');",
    ),
    Trouble(
        id="archiving-fails", severity="danger", plant=_failing_archive,
        settings={"archive_mode": "on", "archive_command": "false"},
        says="archiving fails", remedy="log",
    ),
    *(
        Trouble(  # the archiver ends, and counts nothing
            id="archiving-fails", severity="danger", plant=_lost_program, major=major,
            settings={"archive_mode": "on", "archive_command": "no-such-program %p"},
            says=r"WAL has waited for 7[.0-9]* min, and none is archived: 16 MB of WAL waits",
            remedy="is not found, or killed by a signal, counts as no failure",
        )
        for major in (13, 18)
    ),
    Trouble(
        id="archive-discarded", severity="to know", plant=_nothing,
        settings={"archive_mode": "on", "archive_command": "/bin/true"},
        says="archive_command is /bin/true, which keeps nothing: backups cannot be brought forward",
        remedy="Set archive_command",
    ),
    Trouble(  # nothing fails, since there is nothing to run
        id="archiving-fails", severity="danger",
        plant=_sql("SELECT pg_logical_emit_message(true, 'x', 'y')", "SELECT pg_switch_wal()"),
        settings={"archive_mode": "on", "archive_command": "", "archive_library": ""},
        says="archive_command is empty: 16 MB of WAL waits until the disk is full",
        remedy="Set archive_command",
    ),
    Trouble(
        id="synchronous-standby-missing", severity="danger", heals=True,
        plant=_sql("SET synchronous_commit = off",
                   "ALTER SYSTEM SET synchronous_standby_names = 'away'",
                   "SELECT pg_reload_conf()"),
        says="no synchronous standby is attached, .*'away'",
        remedy="SET synchronous_standby_names = ''",
    ),
    Trouble(
        id="subscription-stopped", severity="to do",
        plant=_sql("CREATE SUBSCRIPTION news CONNECTION 'host=nowhere' PUBLICATION p "
                   "WITH (connect = false, slot_name = NONE)"),
        says="subscription news: is disabled", remedy='ALTER SUBSCRIPTION "news" ENABLE;',
    ),
    Trouble(
        id="sequence-exhausted", severity="danger", heals=True,
        plant=_sql("CREATE TABLE visits (id serial PRIMARY KEY)",
                   "SELECT setval('visits_id_seq', 2040109465)"),
        says=r"95% of sequence public\.visits_id_seq, which fills public\.visits\.id \(integer\) "
        "is used: 107,374,182 numbers are left",
        remedy='ALTER TABLE "public"."visits" ALTER COLUMN "id" TYPE bigint;',
    ),
    Trouble(  # a column of partitions has the type of their root's, here with a dot in its name
        id="sequence-exhausted", severity="danger", heals=True,
        plant=_sql("CREATE SEQUENCE numbers", "CREATE SCHEMA archive",
                   "CREATE TABLE archive.\"visits.2026\" (id int DEFAULT nextval('numbers'), "
                   "day int) PARTITION BY LIST (day)",
                   *(f'CREATE TABLE day{n} PARTITION OF archive."visits.2026" FOR VALUES IN ({n})'
                     for n in range(3)),
                   "SELECT setval('numbers', 2040109465)"),
        says=r"95% of sequence public\.numbers, which fills archive\.visits\.2026\.id "
        r"\(integer\) is used: 107,374,182 numbers are left",
        remedy='ALTER TABLE "archive"."visits.2026" ALTER COLUMN "id" TYPE bigint;',
    ),
    Trouble(
        id="sequence-exhausted", severity="danger", heals=True,
        plant=_sql("CREATE TABLE seats (id int GENERATED ALWAYS AS IDENTITY (MAXVALUE 1000))",
                   "SELECT setval('seats_id_seq', 950)"),
        says=r"95% of sequence public\.seats_id_seq, .* is used: 50 numbers are left",
        remedy='ALTER SEQUENCE "public"."seats_id_seq" AS bigint NO MAXVALUE;',
    ),
    Trouble(
        id="key-exhausted", severity="danger", heals=True,
        plant=_sql("CREATE TABLE hits (id int, day int) PARTITION BY LIST (day)",
                   *(f"CREATE TABLE day{n} PARTITION OF hits (UNIQUE (id)) FOR VALUES IN ({n})"
                     for n in (1, 2)),
                   "INSERT INTO hits SELECT n, 1 FROM generate_series(1, 9000) AS n",
                   "INSERT INTO hits SELECT 2040100465 + n, 2 FROM generate_series(1, 9000) AS n",
                   "ANALYZE hits"),
        says=r"95% of public\.hits\.id \(integer\) is used: 107,374,182 numbers were left",
        remedy='ALTER TABLE "public"."hits" ALTER COLUMN "id" TYPE bigint;',
    ),
    Trouble(
        id="key-exhausted", severity="danger", heals=True,
        plant=_sql("CREATE TABLE hits (id int PRIMARY KEY)",
                   "INSERT INTO hits SELECT 2040100465 + n FROM generate_series(1, 9000) AS n",
                   "ANALYZE hits"),
        says=r"95% of public\.hits\.id \(integer\) is used: 107,374,182 numbers were left",
        remedy='ALTER TABLE "public"."hits" ALTER COLUMN "id" TYPE bigint;',
    ),
    Trouble(  # two columns reference it: they end at the same number
        id="key-exhausted", severity="danger", heals=True,
        plant=_sql("CREATE TABLE hits (id int PRIMARY KEY)",
                   "CREATE TABLE clicks (hit int REFERENCES hits, again bigint REFERENCES hits)",
                   "INSERT INTO hits SELECT 2040100465 + n FROM generate_series(1, 9000) AS n",
                   "ANALYZE hits"),
        says=r"95% of public\.hits\.id \(integer\) is used: 107,374,182 numbers were left",
        remedy='ALTER TABLE "public"."clicks" ALTER COLUMN "hit" TYPE bigint;',
    ),
    Trouble(
        id="sequence-exhausted", severity="danger",
        plant=_sql("CREATE TABLE visits (id serial, "
                   "day int GENERATED ALWAYS AS (id / 86400) STORED)",
                   'CREATE VIEW "who; was here" AS SELECT id FROM visits',
                   "CREATE MATERIALIZED VIEW last AS SELECT max(id) FROM visits",
                   "CREATE POLICY mine ON visits USING (id > 0)",
                   "CREATE TRIGGER same BEFORE UPDATE OF id ON visits FOR EACH ROW "
                   "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
                   "SELECT setval('visits_id_seq', 2040109465)"),
        says=r"95% of sequence public\.visits_id_seq",
        remedy="drop generated column day of table public.visits, materialized view public.last, "
        "policy mine on table public.visits, trigger same on table public.visits and view "
        'public."who; was here", and',
    ),
    Trouble(
        id="key-exhausted", severity="danger",
        plant=_sql("CREATE TABLE hits (id int PRIMARY KEY) PARTITION BY RANGE (id)",
                   "CREATE TABLE hits1 PARTITION OF hits DEFAULT",
                   "INSERT INTO hits SELECT 2040100465 + n FROM generate_series(1, 9000) AS n",
                   "ANALYZE hits"),
        says=r"95% of public\.hits\.id \(integer\) is used",
        remedy='Copy "public"."hits" into a new table whose column is bigint, since a partition',
    ),
    Trouble(
        id="invalid-index", severity="to do", plant=_failed_build,
        says=r"index public\.orders_who of public\.orders is invalid",
        remedy="Remove duplicates first, or it fails again: "
        'REINDEX INDEX CONCURRENTLY "public"."orders_who";',
    ),
    Trouble(
        id="duplicate-index", severity="to know", heals=True,
        plant=_sql("CREATE TABLE twice (a int, b int)", "CREATE INDEX one ON twice (a, b)",
                   "CREATE INDEX other ON twice (a, b)", "CREATE INDEX third ON twice (b, a)"),
        says="1 index, .*public.other of public.twice, .* the same as one",
        remedy='DROP INDEX CONCURRENTLY "public"."other";',
    ),
    Trouble(
        id="never-analyzed", severity="to do", heals=True,
        plant=_sql("CREATE TABLE fresh (a int) WITH (autovacuum_enabled = off)",
                   "INSERT INTO fresh SELECT generate_series(1, 5000)"),
        says=r"1 table without statistics: public\.fresh", remedy='ANALYZE "public"."fresh";',
    ),
    *(
        Trouble(
            id="never-analyzed", severity="to do", heals=True, plant=plant, major=major,
            says=rf"1 table without statistics: public\.{name}",
            remedy=f'ANALYZE "public"."{name}";',
        )
        for plant, name in ((_uncounted, "old"), (_leaves, "root"))
        for major in (13, 18)
    ),
    Trouble(  # a name that no terminal can show as it is
        id="never-analyzed", severity="to do", heals=True,
        plant=_sql('CREATE TABLE "a\nb\u202e" (a int) WITH (autovacuum_enabled = off)',
                   'INSERT INTO "a\nb\u202e" SELECT generate_series(1, 5000)'),
        says='1 table without statistics: public."a\nb',
        remedy=r'ANALYZE "public".U&"a\000Ab\202E";',
    ),
    Trouble(
        id="vacuum-behind", severity="to do", heals=True,
        plant=_sql("CREATE TABLE busy (a int) WITH (autovacuum_enabled = off)",
                   "INSERT INTO busy SELECT generate_series(1, 70000)", "ANALYZE busy",
                   "UPDATE busy SET a = a"),
        says=r"overdue on 1 table, with up to 70,000 dead rows \(public\.busy\)",
        remedy='VACUUM "public"."busy";',
    ),
    Trouble(
        id="checkpoints-forced", severity="to do", plant=_forced_checkpoints,
        settings={"max_wal_size": "64MB", "min_wal_size": "32MB"},
        says="of 1[2-9] checkpoints .* before their time", remedy="max_wal_size",
    ),
    Trouble(
        id="horizon-held", severity="to do", plant=_prepared,
        settings={"max_prepared_transactions": 5},
        says="prepared transaction keeps dead rows: payment-17 of postgres",
        remedy="ROLLBACK PREPARED 'payment-17';", heals=True,
    ),
    Trouble(
        id="wraparound", severity="to do", plant=_burnt(130_000),
        settings={"autovacuum_freeze_max_age": 100_000, "autovacuum_naptime": "1h"},
        says=r"transaction IDs are left in database (postgres|template1)",
        remedy="VACUUM (FREEZE)",
    ),
    Trouble(
        id="checksum-failures", severity="danger", plant=_damaged,
        says=r"\d+ damaged pages? (was|were) read in database postgres", remedy="backup",
    ),
    Trouble(
        id="checksum-failures", severity="danger", plant=_damaged_for_all,
        says=r"\d+ damaged pages? (was|were) read in shared catalogs", remedy="backup",
    ),
    Trouble(
        id="checksum-failures", severity="to know", plant=_nothing, major=17,
        says="data checksums are off", remedy="pg_checksums --enable",
    ),
    Trouble(
        id="override-undoes-advice", severity="to know",
        plant=_sql("CREATE ROLE report", "ALTER ROLE report SET random_page_cost = 9"),
        says="random_page_cost is 9 for role report; the advice for the server is 1.1",
        remedy='ALTER ROLE "report" RESET random_page_cost;', heals=True,
    ),
    Trouble(
        id="override-undoes-advice", severity="to know",
        plant=_sql("CREATE ROLE report", "ALTER ROLE report SET random_page_cost = 9",
                   "ALTER SYSTEM SET random_page_cost = 1.1", "SELECT pg_reload_conf()"),
        says="random_page_cost is 9 for role report; the advice for the server is 1.1",
        remedy='ALTER ROLE "report" RESET random_page_cost;', heals=True,
    ),
    Trouble(
        id="extension-outdated", severity="to do", heals=True,
        plant=_sql("CREATE EXTENSION pg_stat_statements VERSION '1.10'"),
        says=r"extension pg_stat_statements is 1\.10 .* 1\.\d+ on disk",
        remedy='ALTER EXTENSION "pg_stat_statements" UPDATE;',
    ),
    Trouble(
        id="version-support", severity="to do", plant=_nothing, major=13,
        says="support of version 13 ended on 2025-11-13", remedy="pg_upgrade",
    ),
    Trouble(
        id="version-support", severity="to do", plant=_sql("CREATE ROLE rds_superuser"), major=13,
        says="support of version 13 ended on 2025-11-13",
        remedy="Plan the upgrade that the provider offers",
    ),
    Trouble(
        id="checksum-failures", severity="danger", plant=_damaged_where_hosted,
        says=r"\d+ damaged pages? (was|were) read in database postgres",
        remedy="open a case with the provider",
    ),
)  # fmt: skip
