/*
help = "Caches of transaction status and the like"
interval = "5min"
reset = "stats_reset"

[keys]
name = { help = "the cache" }

[counters]
hits = { unit = "blocks", help = "blocks found" }
reads = { unit = "blocks", help = "blocks read" }
written = { unit = "blocks", help = "blocks written" }
*/
SELECT name, stats_reset::text AS stats_reset, blks_hit AS hits, blks_read AS reads,
       blks_written AS written
FROM pg_catalog.pg_stat_slru
