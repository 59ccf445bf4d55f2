-- Sessions that wait for a lock, those that they wait for, and those in a transaction without work.
-- pg_blocking_pids() stops the lock manager for a moment: it is asked for the first hundred only.
WITH waiting AS MATERIALIZED (
    SELECT pid, pg_blocking_pids(pid) AS blocked_by
    FROM pg_catalog.pg_stat_activity
    WHERE wait_event_type = 'Lock' AND pid <> pg_backend_pid()
    ORDER BY state_change, pid
    LIMIT 100
), lock AS (
    SELECT DISTINCT ON (l.pid) l.pid, l.locktype || ' ' || l.mode AS waits_for,
           NULL::timestamptz AS since, -- before 14
           l.waitstart AS since, -- since 14
           n.nspname || '.' || c.relname AS relation
    FROM pg_catalog.pg_locks AS l
    LEFT JOIN pg_catalog.pg_class AS c ON c.oid = l.relation
         AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
    LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE NOT l.granted AND l.pid IN (SELECT pid FROM waiting)
    ORDER BY l.pid
)
SELECT a.pid, a.usename AS role, a.datname AS database,
       coalesce(a.application_name, '') AS application, host(a.client_addr) AS client,
       a.state, a.backend_type, lock.waits_for, lock.relation,
       coalesce(waiting.blocked_by, '{}') AS blocked_by,
       extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS transaction_seconds,
       extract(epoch FROM clock_timestamp() - coalesce(lock.since, a.state_change))::float8
           AS state_seconds,
       left(a.query, 2000) AS statement
FROM pg_catalog.pg_stat_activity AS a
LEFT JOIN waiting ON waiting.pid = a.pid
LEFT JOIN lock ON lock.pid = a.pid
WHERE a.pid <> pg_backend_pid()
  AND (waiting.pid IS NOT NULL
       OR a.pid IN (SELECT unnest(blocked_by) FROM waiting)
       OR a.state LIKE 'idle in transaction%'
          AND a.state_change < clock_timestamp() - interval '1 minute')
ORDER BY state_seconds DESC NULLS LAST, a.pid
LIMIT 300
