/*
help = "Transactions, rows, blocks and temporary files of each database"
interval = "1min"
reset = "made"
export_largest = ["checksum_failures"]

[keys]
database = { help = "the database; null: shared catalogs" }

[counters]
commits = { help = "transactions committed" }
rollbacks = { help = "transactions rolled back" }
blocks_read = { unit = "blocks", help = "blocks not found in shared_buffers" }
blocks_hit = { unit = "blocks", help = "blocks found in shared_buffers" }
rows_returned = { help = "rows read by scans" }
rows_fetched = { help = "rows fetched by index scans" }
rows_inserted = { help = "rows inserted" }
rows_updated = { help = "rows updated" }
rows_deleted = { help = "rows deleted" }
temp_files = { help = "temporary files created" }
temp_bytes = { unit = "bytes", help = "data written to temporary files" }
deadlocks = { help = "deadlocks detected" }
checksum_failures = { help = "pages with a wrong checksum; null: checksums are off" }
conflicts = { help = "statements cancelled by recovery on a standby" }
read_ms = { type = "float", unit = "ms", help = "time reading blocks, with track_io_timing" }
write_ms = { type = "float", unit = "ms", help = "time writing blocks, with track_io_timing" }
session_ms = { type = "float", unit = "ms", help = "time of sessions; 14 and later" }
active_ms = { type = "float", unit = "ms", help = "time in statements; 14 and later" }
idle_in_transaction_ms = { type = "float", unit = "ms", help = "time idle in transactions; 14 and later" }
sessions = { help = "sessions begun; 14 and later" }
sessions_lost = { help = "sessions abandoned, failed or killed; 14 and later" }
parallel_planned = { help = "parallel workers planned; 18 and later" }
parallel_launched = { help = "parallel workers launched; 18 and later" }
*/
-- Another database may have the name of one that was renamed. stats_reset is that of its tables too.
SELECT datname AS database, datid::text AS made,
       xact_commit AS commits, xact_rollback AS rollbacks, blks_read AS blocks_read,
       blks_hit AS blocks_hit, tup_returned AS rows_returned, tup_fetched AS rows_fetched,
       tup_inserted AS rows_inserted, tup_updated AS rows_updated, tup_deleted AS rows_deleted,
       temp_files, temp_bytes, deadlocks, checksum_failures, conflicts,
       blk_read_time AS read_ms, blk_write_time AS write_ms,
       NULL::float8 AS session_ms, NULL::float8 AS active_ms, -- before 14
       NULL::float8 AS idle_in_transaction_ms, NULL::bigint AS sessions, -- before 14
       NULL::bigint AS sessions_lost, -- before 14
       session_time AS session_ms, active_time AS active_ms, -- since 14
       idle_in_transaction_time AS idle_in_transaction_ms, sessions, -- since 14
       sessions_abandoned + sessions_fatal + sessions_killed AS sessions_lost, -- since 14
       NULL::bigint AS parallel_planned, NULL::bigint AS parallel_launched -- before 18
       parallel_workers_to_launch AS parallel_planned, -- since 18
       parallel_workers_launched AS parallel_launched -- since 18
FROM pg_catalog.pg_stat_database
