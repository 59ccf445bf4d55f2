/*
help = "What pg_stat_statements says of itself; 14 and later"
interval = "1min"
reset = "stats_reset"
extension = "pg_stat_statements"

[counters]
evictions = { help = "times that it evicted its least-executed statements, to make room" }
*/
SELECT stats_reset::text AS stats_reset, dealloc AS evictions FROM @extschema@.pg_stat_statements_info
