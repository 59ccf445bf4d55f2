/*
help = "Archiving of WAL"
interval = "1min"
reset = "stats_reset"

[counters]
archived = { help = "files archived" }
failed = { help = "failed attempts" }
*/
SELECT stats_reset::text AS stats_reset, archived_count AS archived, failed_count AS failed
FROM pg_catalog.pg_stat_archiver
