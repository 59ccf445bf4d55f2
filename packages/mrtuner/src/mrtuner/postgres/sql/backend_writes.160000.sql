-- Only evictions: bulk operations write their own ring of buffers as they should. One write may
-- carry several buffers as of 18.
SELECT extract(epoch FROM clock_timestamp() - max(stats_reset))::float AS seconds,
       coalesce(sum(writes), 0)::bigint AS backend_writes, -- before 18
       (coalesce(sum(write_bytes), 0) / current_setting('block_size')::int)::bigint -- since 18
           AS backend_writes, -- since 18
       coalesce(sum(evictions), 0)::bigint AS evictions
FROM pg_catalog.pg_stat_io
WHERE backend_type = 'client backend' AND object = 'relation' AND context = 'normal'
