-- stats_reset is NULL for a database whose counters were never reset (15 and later): when they began is
-- told as in vacuum_moment.
SELECT extract(epoch FROM clock_timestamp() - coalesce(stats_reset, least(
           CASE WHEN (r.archiver IN (r.bgwriter, r.slru) OR r.bgwriter = r.slru) IS NOT TRUE
                THEN pg_postmaster_start_time() END,
           r.archiver, r.bgwriter, r.slru)))::float AS seconds,
       temp_files, temp_bytes, xact_commit AS commits,
       NULL::bigint AS active_ms, -- before 14
       active_time::bigint AS active_ms, -- since 14
       NULL::bigint AS parallel_planned, NULL::bigint AS parallel_launched -- before 18
       parallel_workers_to_launch AS parallel_planned, -- since 18
       parallel_workers_launched AS parallel_launched -- since 18
FROM pg_catalog.pg_stat_database, (
    SELECT a.stats_reset AS archiver, b.stats_reset AS bgwriter,
           (SELECT min(stats_reset) FROM pg_catalog.pg_stat_slru) AS slru
    FROM pg_catalog.pg_stat_archiver AS a, pg_catalog.pg_stat_bgwriter AS b
) AS r
