SELECT pid, extract(epoch FROM clock_timestamp() - backend_start)::float AS age
FROM pg_catalog.pg_stat_activity
WHERE pid = pg_backend_pid()
