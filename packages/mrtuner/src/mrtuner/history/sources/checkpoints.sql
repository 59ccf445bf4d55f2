/*
help = "Checkpoints and what the background writer wrote"
interval = "1min"
reset = "stats_reset"

[counters]
timed = { help = "checkpoints started by checkpoint_timeout; restartpoints on a standby" }
requested = { help = "checkpoints started by the amount of WAL or by a command" }
write_ms = { type = "float", unit = "ms", help = "time writing buffers" }
sync_ms = { type = "float", unit = "ms", help = "time syncing files" }
buffers_written = { unit = "blocks", help = "buffers written by checkpoints" }
buffers_cleaned = { unit = "blocks", help = "buffers written by the background writer" }
clean_stops = { help = "times that the background writer stopped at bgwriter_lru_maxpages" }
buffers_allocated = { unit = "blocks", help = "buffers allocated" }
*/
SELECT stats_reset::text AS stats_reset,
       checkpoints_timed AS timed, checkpoints_req AS requested,
       checkpoint_write_time AS write_ms, checkpoint_sync_time AS sync_ms,
       buffers_checkpoint AS buffers_written, buffers_clean AS buffers_cleaned,
       maxwritten_clean AS clean_stops, buffers_alloc AS buffers_allocated
FROM pg_catalog.pg_stat_bgwriter
