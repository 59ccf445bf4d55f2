-- Sessions that wait for I/O, their own or another's; wait events of others need pg_read_all_stats.
SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       (SELECT sum(numbackends) FROM pg_catalog.pg_stat_database)::bigint AS sessions,
       CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE') THEN
            count(*) FILTER (WHERE wait_event_type = 'IO'
                             OR wait_event IN ('WALWrite', 'BufferIO', 'BufferIo')) END AS waiting
FROM pg_catalog.pg_stat_activity
WHERE pid <> pg_backend_pid()
