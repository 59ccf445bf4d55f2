-- stats_reset is NULL for a database whose counters were never reset (15 and later).
SELECT extract(epoch FROM clock_timestamp() - stats_reset)::float AS seconds,
       temp_files, temp_bytes, blks_read AS blocks_read, blks_hit AS blocks_hit,
       xact_commit AS commits,
       NULL::bigint AS active_ms, -- before 14
       active_time::bigint AS active_ms, -- since 14
       NULL::bigint AS parallel_planned, NULL::bigint AS parallel_launched, -- before 18
       parallel_workers_to_launch AS parallel_planned, -- since 18
       parallel_workers_launched AS parallel_launched, -- since 18
       CASE WHEN datname = current_database() THEN tup_updated + tup_deleted END AS dead_rows
FROM pg_catalog.pg_stat_database
