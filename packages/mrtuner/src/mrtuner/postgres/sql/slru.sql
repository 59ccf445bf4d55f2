-- Caches of transaction status and the like; since 17 each has its own *_buffers.
SELECT name, blks_hit AS hits, blks_read AS reads,
       extract(epoch FROM clock_timestamp() - stats_reset)::float AS seconds
FROM pg_catalog.pg_stat_slru
WHERE name <> 'other'
ORDER BY name
