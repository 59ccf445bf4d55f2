-- Sessions of clients, which alone take connections: not workers nor WAL senders, as far as seen.
-- And those that wait for I/O, their own or another's. What others do needs pg_read_all_stats.
SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       count(*) FILTER (WHERE backend_type = 'client backend'
                        OR backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL)
           AS sessions,
       CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE') THEN
            count(*) FILTER (WHERE pid <> pg_backend_pid()
                             AND (wait_event_type = 'IO'
                                  OR wait_event IN ('WALWrite', 'BufferIO', 'BufferIo')))
            END AS waiting
FROM pg_catalog.pg_stat_activity
