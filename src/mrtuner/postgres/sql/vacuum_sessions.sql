-- Whose snapshot keeps dead rows from being removed. VACUUM's own does not.
SELECT pid, datname AS database, usename AS role, application_name AS application,
       state, backend_type,
       extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds,
       extract(epoch FROM clock_timestamp() - state_change)::float8 AS in_state,
       greatest(age(backend_xmin), age(backend_xid)) AS age
FROM pg_catalog.pg_stat_activity
WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
  AND pid <> pg_backend_pid() AND backend_type NOT IN ('walsender', 'autovacuum worker')
ORDER BY age DESC NULLS LAST, pid
LIMIT 50
