-- Before 16 these also count new pages and bulk operations, and evictions are not counted.
SELECT extract(epoch FROM clock_timestamp() - stats_reset)::float AS seconds,
       buffers_backend AS backend_writes, NULL::bigint AS evictions
FROM pg_catalog.pg_stat_bgwriter
