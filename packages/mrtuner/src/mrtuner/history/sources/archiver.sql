/*
help = "Archiving of WAL"
interval = "1min"
reset = "stats_reset"

[counters]
archived = { help = "files archived" }
failed = { help = "failed attempts" }

[gauges]
since_archived = { type = "float", unit = "s", help = "time since the last file was archived; null: none was" }
*/
SELECT stats_reset::text AS stats_reset, archived_count AS archived, failed_count AS failed,
       extract(epoch FROM clock_timestamp() - last_archived_time)::float8 AS since_archived
FROM pg_catalog.pg_stat_archiver
