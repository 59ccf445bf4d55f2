-- One write may carry several buffers since 18.
SELECT extract(epoch FROM clock_timestamp() - max(stats_reset))::float AS seconds,
       (coalesce(sum(write_bytes), 0) / current_setting('block_size')::integer)::bigint
           AS backend_writes,
       coalesce(sum(fsyncs), 0)::bigint AS backend_fsyncs,
       coalesce(sum(evictions), 0)::bigint AS evictions
FROM pg_catalog.pg_stat_io
WHERE backend_type = 'client backend' AND object = 'relation' AND context = 'normal'
