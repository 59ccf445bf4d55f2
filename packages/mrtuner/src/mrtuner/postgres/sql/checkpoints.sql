SELECT extract(epoch FROM clock_timestamp() - stats_reset)::float AS seconds,
       checkpoints_timed, checkpoints_req AS checkpoints_requested,
       maxwritten_clean AS clean_stops, buffers_checkpoint + buffers_clean AS background_writes
FROM pg_catalog.pg_stat_bgwriter
