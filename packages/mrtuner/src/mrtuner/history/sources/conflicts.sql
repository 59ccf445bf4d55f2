/*
help = "Queries that replay cancelled on a standby, by database and cause; nothing on a primary"
interval = "1min"
reset = "made"

[keys]
database = { help = "the database" }

[counters]
snapshot = { help = "rows that they needed were vacuumed on the primary" }
lock = { help = "they held a lock that replay needed" }
bufferpin = { help = "they used a page that replay needed" }
deadlock = { help = "they and replay waited for each other" }
tablespace = { help = "their tablespace was dropped" }
slot = { help = "sessions of logical slots that lost their rows; 16 and later" }
*/
SELECT datname AS database, datid::text AS made, confl_snapshot AS snapshot, confl_lock AS lock,
       confl_bufferpin AS bufferpin, confl_deadlock AS deadlock, confl_tablespace AS tablespace,
       NULL::bigint AS slot -- before 16
       confl_active_logicalslot AS slot -- since 16
FROM pg_catalog.pg_stat_database_conflicts
WHERE pg_is_in_recovery()
