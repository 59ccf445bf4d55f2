/*
help = "WAL written, by its position and by pg_stat_wal"
interval = "1min"
reset = "stats_reset"

[counters]
bytes = { unit = "bytes", help = "WAL written, by its position; nothing on a standby" }
records = { help = "records; 14 and later" }
full_page_images = { help = "full-page images; 14 and later" }
buffers_full = { help = "times that wal_buffers was full; 14 and later" }
*/
-- PostgreSQL 13 counts no WAL. A position never goes back within one timeline.
SELECT NULL::text AS stats_reset,
       CASE WHEN NOT pg_is_in_recovery()
            THEN (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint END AS bytes,
       NULL::bigint AS records, NULL::bigint AS full_page_images, NULL::bigint AS buffers_full
