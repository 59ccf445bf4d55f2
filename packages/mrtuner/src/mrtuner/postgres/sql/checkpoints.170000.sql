-- A standby counts attempts at restartpoints, most of which do nothing.
SELECT extract(epoch FROM clock_timestamp() - c.stats_reset)::float AS seconds,
       CASE WHEN NOT pg_is_in_recovery() THEN num_timed END AS checkpoints_timed,
       CASE WHEN NOT pg_is_in_recovery() THEN num_requested END AS checkpoints_requested,
       b.maxwritten_clean AS clean_stops, c.buffers_written + b.buffers_clean AS background_writes
FROM pg_catalog.pg_stat_checkpointer AS c, pg_catalog.pg_stat_bgwriter AS b
