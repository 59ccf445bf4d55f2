-- A standby counts attempts at restartpoints, most of which do nothing.
SELECT extract(epoch FROM clock_timestamp() - stats_reset)::float AS seconds,
       CASE WHEN NOT pg_is_in_recovery() THEN checkpoints_timed END AS checkpoints_timed,
       CASE WHEN NOT pg_is_in_recovery() THEN checkpoints_req END AS checkpoints_requested,
       maxwritten_clean AS clean_stops, buffers_checkpoint + buffers_clean AS background_writes
FROM pg_catalog.pg_stat_bgwriter
