SELECT datname AS database, stats_reset::text AS stats_reset,
       xact_commit AS commits, xact_rollback AS rollbacks, blks_read AS blocks_read,
       blks_hit AS blocks_hit, tup_returned AS rows_returned, tup_fetched AS rows_fetched,
       tup_inserted AS rows_inserted, tup_updated AS rows_updated, tup_deleted AS rows_deleted,
       temp_files, temp_bytes, deadlocks, conflicts,
       blk_read_time AS read_ms, blk_write_time AS write_ms,
       session_time AS session_ms, active_time AS active_ms,
       idle_in_transaction_time AS idle_in_transaction_ms, sessions,
       sessions_abandoned + sessions_fatal + sessions_killed AS sessions_lost,
       NULL::bigint AS parallel_planned, NULL::bigint AS parallel_launched
FROM pg_catalog.pg_stat_database
