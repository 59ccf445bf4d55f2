-- A standby makes restartpoints; before 17 both were counted together.
SELECT extract(epoch FROM clock_timestamp() - c.stats_reset)::float AS seconds,
       CASE WHEN pg_is_in_recovery() THEN restartpoints_timed ELSE num_timed
       END AS checkpoints_timed,
       CASE WHEN pg_is_in_recovery() THEN restartpoints_req ELSE num_requested
       END AS checkpoints_requested,
       b.maxwritten_clean AS clean_stops, c.buffers_written + b.buffers_clean AS background_writes
FROM pg_catalog.pg_stat_checkpointer AS c, pg_catalog.pg_stat_bgwriter AS b
