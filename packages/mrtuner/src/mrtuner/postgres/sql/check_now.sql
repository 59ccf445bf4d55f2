-- The moment of a check.
SELECT extract(epoch FROM clock_timestamp())::float8 AS at, current_database() AS database,
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next_xid,
       pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all,
       -- Forks may lack the function.
       coalesce(has_function_privilege(to_regprocedure('pg_catalog.pg_ls_dir(text)'), 'EXECUTE'), false)
           AS may_list,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE wait_event_type = 'Lock') AS waiting,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE wait_event = 'SyncRep') AS committing
