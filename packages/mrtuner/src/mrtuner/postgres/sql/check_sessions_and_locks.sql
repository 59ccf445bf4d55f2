-- Sessions that wait for a lock, those that they wait for, and those in a transaction without work.
-- pg_blocking_pids() stops the lock manager for a moment: it is asked for the first hundred only. A
-- prepared transaction is its process 0: of several, the oldest is shown.
WITH waiting AS MATERIALIZED (
    SELECT pid, pg_blocking_pids(pid) AS blocked_by
    FROM pg_catalog.pg_stat_activity
    WHERE wait_event_type = 'Lock' AND pid <> pg_backend_pid()
    ORDER BY state_change, pid
    LIMIT 100
), every_lock AS MATERIALIZED (
    SELECT * FROM pg_catalog.pg_locks
), lock AS (
    SELECT DISTINCT ON (l.pid) l.pid, l.locktype || ' ' || l.mode AS waits_for,
           NULL::timestamptz AS since, -- before 14
           l.waitstart AS since, -- since 14
           CASE WHEN c.oid IS NOT NULL THEN ARRAY[n.nspname, c.relname]::text[] END AS relation
    FROM every_lock AS l
    LEFT JOIN pg_catalog.pg_class AS c ON c.oid = l.relation
         AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
    LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE NOT l.granted AND l.pid IN (SELECT pid FROM waiting)
    ORDER BY l.pid
), prepared AS (
    SELECT DISTINCT p.gid, p.owner, p.database, p.prepared
    FROM pg_catalog.pg_prepared_xacts AS p
    -- Its locks have no process; one of them is on its own ID.
    JOIN every_lock AS own ON own.pid IS NULL AND own.transactionid = p.transaction
    JOIN every_lock AS held ON held.pid IS NULL AND held.virtualtransaction = own.virtualtransaction
    JOIN every_lock AS l ON NOT l.granted
         AND (l.locktype, l.database, l.relation, l.page, l.tuple, l.transactionid, l.classid, l.objid)
             IS NOT DISTINCT FROM (held.locktype, held.database, held.relation, held.page, held.tuple,
                                   held.transactionid, held.classid, held.objid)
    WHERE l.pid IN (SELECT pid FROM waiting WHERE 0 = ANY (blocked_by))
    ORDER BY p.prepared
    LIMIT 1
)
SELECT a.pid, a.usename AS role, a.datname AS database,
       coalesce(a.application_name, '') AS application, host(a.client_addr) AS client,
       a.state, a.backend_type, lock.waits_for, lock.relation,
       coalesce(waiting.blocked_by, '{}') AS blocked_by,
       extract(epoch FROM clock_timestamp() - coalesce(lock.since, a.state_change))::float8
           AS state_seconds,
       -- Of another encoding, it may be no text here, which left() refuses.
       CASE WHEN d.encoding = here.encoding THEN left(a.query, 2000) ELSE a.query END AS statement
FROM pg_catalog.pg_stat_activity AS a
JOIN pg_catalog.pg_database AS here ON here.datname = current_database()
LEFT JOIN pg_catalog.pg_database AS d ON d.oid = a.datid
LEFT JOIN waiting ON waiting.pid = a.pid
LEFT JOIN lock ON lock.pid = a.pid
WHERE a.pid <> pg_backend_pid()
  AND (waiting.pid IS NOT NULL
       OR a.pid IN (SELECT unnest(blocked_by) FROM waiting)
       OR a.state LIKE 'idle in transaction%'
          AND a.state_change < clock_timestamp() - interval '1 minute')
UNION ALL
SELECT 0, p.owner, p.database, p.gid, NULL, 'prepared', NULL, NULL, NULL::text[], '{}',
       extract(epoch FROM clock_timestamp() - p.prepared)::float8, ''
FROM prepared AS p
ORDER BY waits_for, state_seconds DESC NULLS LAST, pid -- those that wait first
LIMIT 300
