-- Before 17, restartpoints were counted as checkpoints.
SELECT concat(c.stats_reset, ' ', b.stats_reset) AS stats_reset,
       CASE WHEN pg_is_in_recovery() THEN c.restartpoints_timed ELSE c.num_timed END AS timed,
       CASE WHEN pg_is_in_recovery() THEN c.restartpoints_req ELSE c.num_requested
       END AS requested,
       c.write_time AS write_ms, c.sync_time AS sync_ms, c.buffers_written,
       b.buffers_clean AS buffers_cleaned, b.maxwritten_clean AS clean_stops,
       b.buffers_alloc AS buffers_allocated
FROM pg_catalog.pg_stat_checkpointer AS c, pg_catalog.pg_stat_bgwriter AS b
