-- The moment of a check. Statistics that were never reset (NULL since 15) may be older than the start.
SELECT extract(epoch FROM clock_timestamp())::float8 AS at, current_database() AS database,
       pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all,
       -- Forks may lack the function.
       coalesce(has_function_privilege(to_regprocedure('pg_catalog.pg_ls_dir(text)'), 'EXECUTE'), false)
           AS may_list,
       extract(epoch FROM clock_timestamp() - coalesce(
           (SELECT stats_reset FROM pg_catalog.pg_stat_database WHERE datname = current_database()),
           pg_postmaster_start_time()))::float8 AS counted_for,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE wait_event_type = 'Lock') AS waiting,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE wait_event = 'SyncRep') AS committing
