-- Without the texts, which need not be read each time.
SELECT d.datname AS database, r.rolname AS role, s.queryid AS query_id, s.toplevel,
       sum(s.calls)::bigint AS calls, sum(s.plans)::bigint AS plans,
       sum(s.total_exec_time) AS exec_ms, sum(s.total_plan_time) AS plan_ms,
       sum(s.rows)::bigint AS rows, sum(s.shared_blks_hit)::bigint AS blocks_hit,
       sum(s.shared_blks_read)::bigint AS blocks_read,
       sum(s.shared_blks_dirtied)::bigint AS blocks_dirtied,
       sum(s.shared_blks_written)::bigint AS blocks_written,
       sum(s.temp_blks_read)::bigint AS temp_blocks_read,
       sum(s.temp_blks_written)::bigint AS temp_blocks_written,
       sum(s.shared_blk_read_time) AS read_ms, sum(s.shared_blk_write_time) AS write_ms,
       sum(s.wal_bytes)::bigint AS wal_bytes, sum(s.jit_generation_time + s.jit_inlining_time + s.jit_optimization_time
           + s.jit_emission_time) AS jit_ms,
       max(s.stats_since)::text AS stats_since
FROM pg_stat_statements(false) AS s
LEFT JOIN pg_catalog.pg_database AS d ON d.oid = s.dbid
LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = s.userid
WHERE s.queryid IS NOT NULL
GROUP BY 1, 2, 3, 4
