-- A standby counts attempts here as well, and restartpoints_done does not tell what began them.
SELECT greatest(c.stats_reset, b.stats_reset)::text AS stats_reset,
       CASE WHEN NOT pg_is_in_recovery() THEN c.num_timed END AS timed,
       CASE WHEN NOT pg_is_in_recovery() THEN c.num_requested END AS requested,
       c.write_time AS write_ms, c.sync_time AS sync_ms, c.buffers_written,
       b.buffers_clean AS buffers_cleaned, b.maxwritten_clean AS clean_stops,
       b.buffers_alloc AS buffers_allocated
FROM pg_catalog.pg_stat_checkpointer AS c, pg_catalog.pg_stat_bgwriter AS b
