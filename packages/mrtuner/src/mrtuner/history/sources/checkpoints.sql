/*
help = "Checkpoints and what the background writer wrote"
interval = "1min"
reset = "stats_reset"

[counters]
timed = { help = "checkpoints started by checkpoint_timeout; unknown on a standby" }
requested = { help = "checkpoints started by WAL or a command; unknown on a standby" }
write_ms = { type = "float", unit = "ms", help = "time writing buffers" }
sync_ms = { type = "float", unit = "ms", help = "time syncing files" }
buffers_written = { unit = "blocks", help = "buffers written by checkpoints" }
buffers_cleaned = { unit = "blocks", help = "buffers written by the background writer" }
clean_stops = { help = "times that the background writer stopped at bgwriter_lru_maxpages" }
buffers_allocated = { unit = "blocks", help = "buffers allocated" }
*/
-- A standby counts attempts, most of which find no new checkpoint of the primary: past max_wal_size
-- one for each WAL segment, and every 15 s once checkpoint_timeout has passed.
SELECT stats_reset::text AS stats_reset,
       CASE WHEN NOT pg_is_in_recovery() THEN checkpoints_timed END AS timed,
       CASE WHEN NOT pg_is_in_recovery() THEN checkpoints_req END AS requested,
       checkpoint_write_time AS write_ms, checkpoint_sync_time AS sync_ms,
       buffers_checkpoint AS buffers_written, buffers_clean AS buffers_cleaned,
       maxwritten_clean AS clean_stops, buffers_alloc AS buffers_allocated
FROM pg_catalog.pg_stat_bgwriter
