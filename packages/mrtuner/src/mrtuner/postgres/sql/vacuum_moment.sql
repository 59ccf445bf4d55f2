-- datfrozenxid and datminmxid give the pace of both counters: age grows by what was used up.
SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       extract(epoch FROM s.stats_reset)::float8 AS reset_at,
       extract(epoch FROM pg_postmaster_start_time())::float8 AS started_at,
       (s.xact_commit + s.xact_rollback)::bigint AS transactions,
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next_xid,
       d.datminmxid::text AS oldest_multixact, mxid_age(d.datminmxid) AS multixact_age
FROM pg_catalog.pg_stat_database AS s
JOIN pg_catalog.pg_database AS d ON d.oid = s.datid
WHERE d.datname = current_database()
