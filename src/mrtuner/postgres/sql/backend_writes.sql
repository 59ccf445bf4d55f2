SELECT extract(epoch FROM clock_timestamp() - stats_reset)::float AS seconds,
       buffers_backend AS backend_writes
FROM pg_catalog.pg_stat_bgwriter
