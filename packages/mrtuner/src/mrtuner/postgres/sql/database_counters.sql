-- stats_reset is NULL for a database whose counters were never reset (15 and later): they began with the
-- earliest of the whole server, as in vacuum_moment.
SELECT extract(epoch FROM clock_timestamp() - coalesce(stats_reset, least(
           pg_postmaster_start_time(),
           (SELECT stats_reset FROM pg_catalog.pg_stat_archiver),
           (SELECT stats_reset FROM pg_catalog.pg_stat_bgwriter),
           (SELECT min(stats_reset) FROM pg_catalog.pg_stat_slru))))::float AS seconds,
       temp_files, temp_bytes, xact_commit AS commits,
       NULL::bigint AS active_ms, -- before 14
       active_time::bigint AS active_ms, -- since 14
       NULL::bigint AS parallel_planned, NULL::bigint AS parallel_launched -- before 18
       parallel_workers_to_launch AS parallel_planned, -- since 18
       parallel_workers_launched AS parallel_launched -- since 18
FROM pg_catalog.pg_stat_database
