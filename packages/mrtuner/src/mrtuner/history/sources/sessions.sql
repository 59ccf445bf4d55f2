/*
help = "Sessions that are active or idle in a transaction: one row per session and sample"
interval = "1s"
keep = "7d"
rollup = "minute"
rollup_by = ["database", "role", "backend_type", "state", "wait_type", "wait_event", "query_id"]
keep_rollup = "400d"
grant = "pg_read_all_stats"

[texts]
pid = { type = "integer", help = "process of the session" }
database = { help = "its database" }
role = { help = "its role" }
application = { help = "its application_name" }
backend_type = { help = "client backend, autovacuum worker, checkpointer, …" }
state = { help = "state of a client's session" }
wait_type = { help = "class of what it waits for; null: it runs on a CPU" }
wait_event = { help = "what it waits for" }
query_id = { type = "integer", help = "identifier of its statement; PostgreSQL 14 and later" }
transaction_seconds = { type = "integer", unit = "s", help = "age of its transaction" }
statement_seconds = { type = "integer", unit = "s", help = "age of its statement" }
blocked_by = { help = "processes whose locks it waits for, with commas; null beyond 100 waiters" }
lock_mode = { help = "mode of the lock it waits for: AccessShareLock, …" }
lock_relation = { help = "what it waits for, if in the recorder's database: schema and name" }
statement = { type = "statement", help = "its text, if it waits for a lock or others wait for it" }
*/
-- Background processes that wait for work are left out; so are transactions idle for a moment.
-- Locks are read only if a session waits for one; of a row's lock, that of its tuple tells the table.
-- Its name is read from catalogs: not while one of them is locked, so that the recorder never waits.
-- pg_blocking_pids() stops the lock manager for a moment: it is asked for the first hundred only, and
-- for those that they wait for; advisory locks and the like, which may be held for days, apart.
-- Who waits for a table's lock has no query_id yet: its statement is not analyzed. The texts of
-- others come from pg_stat_statements, up to a minute later.
WITH session AS MATERIALIZED (
    SELECT *, row_number() OVER (
               PARTITION BY wait_event_type, wait_event IN ('relation', 'tuple', 'transactionid')
               ORDER BY state_change, pid) AS place
    FROM pg_catalog.pg_stat_activity
), asked AS MATERIALIZED (
    SELECT pid, pg_blocking_pids(pid) AS pids FROM session
    WHERE wait_event_type = 'Lock' AND place <= 100
), behind AS MATERIALIZED (
    SELECT pid, pids FROM asked
    UNION ALL
    SELECT pid, pg_blocking_pids(pid) FROM session
    WHERE wait_event_type = 'Lock' AND place > 100 AND pid IN (SELECT unnest(pids) FROM asked)
), known AS MATERIALIZED (
    SELECT l.pid, l.mode, l.granted, l.locktype, l.relation,
           l.database IN (0, (SELECT oid FROM pg_catalog.pg_database
                              WHERE datname = current_database())) AS here
    FROM pg_catalog.pg_locks AS l
    WHERE NOT l.granted OR l.locktype = 'tuple' OR l.mode = 'AccessExclusiveLock'
), lock AS MATERIALIZED (
    SELECT pid, mode, granted,
           CASE WHEN here AND NOT EXISTS (SELECT FROM known AS of_catalog
                                          WHERE of_catalog.here AND of_catalog.relation < 16384
                                            AND of_catalog.mode = 'AccessExclusiveLock')
                THEN relation::regclass::text END AS relation
    FROM known
    WHERE NOT granted OR locktype = 'tuple'
)
SELECT a.pid, a.datname AS database, a.usename AS role, a.application_name AS application,
       a.backend_type, a.state, a.wait_event_type AS wait_type, a.wait_event,
       NULL::bigint AS query_id, -- before 14
       a.query_id, -- since 14
       CASE WHEN a.wait_event_type = 'Lock' OR a.pid IN (SELECT unnest(pids) FROM behind)
              OR a.state LIKE 'idle in transaction%' -- before 14
              OR a.state LIKE 'idle in transaction%' AND a.query_id IS NULL -- since 14
            THEN a.query END AS statement,
       floor(extract(epoch FROM clock_timestamp() - a.xact_start))::bigint AS transaction_seconds,
       floor(extract(epoch FROM clock_timestamp() - a.query_start))::bigint AS statement_seconds,
       CASE WHEN a.wait_event_type = 'Lock'
            THEN (SELECT array_to_string(b.pids, ',') FROM behind AS b WHERE b.pid = a.pid)
            END AS blocked_by,
       CASE WHEN a.wait_event_type = 'Lock'
            THEN (SELECT max(lock.mode) FROM lock WHERE lock.pid = a.pid AND NOT lock.granted)
            END AS lock_mode,
       CASE WHEN a.wait_event_type = 'Lock'
            THEN (SELECT max(lock.relation) FROM lock WHERE lock.pid = a.pid) END AS lock_relation
FROM session AS a
WHERE a.pid <> pg_backend_pid() AND a.wait_event_type IS DISTINCT FROM 'Activity'
  AND (a.state IN ('active', 'fastpath function call') OR a.state IS NULL
       OR a.state LIKE 'idle in transaction%' AND a.state_change < clock_timestamp() - '5s'::interval)
