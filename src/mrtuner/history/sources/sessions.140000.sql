-- Background processes that wait for work are left out; so are transactions idle for a moment.
SELECT a.pid, a.datname AS database, a.usename AS role, a.application_name AS application,
       a.backend_type, a.state, a.wait_event_type AS wait_type, a.wait_event,
       a.query_id,
       extract(epoch FROM clock_timestamp() - a.xact_start)::bigint AS transaction_seconds,
       extract(epoch FROM clock_timestamp() - a.query_start)::bigint AS statement_seconds,
       CASE WHEN a.wait_event_type = 'Lock'
            THEN array_to_string(pg_blocking_pids(a.pid), ',') END AS blocked_by
FROM pg_catalog.pg_stat_activity AS a
WHERE a.pid <> pg_backend_pid() AND a.wait_event_type IS DISTINCT FROM 'Activity'
  AND (a.state IN ('active', 'fastpath function call') OR a.state IS NULL
       OR a.state LIKE 'idle in transaction%' AND a.state_change < clock_timestamp() - '5s'::interval)
