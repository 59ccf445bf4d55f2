SELECT coalesce(sum(n_live_tup), 0)::bigint AS live_rows FROM pg_catalog.pg_stat_user_tables
