/*
help = "Statements: calls, time, rows, blocks and WAL"
interval = "1min"
timeout = "10s"
reset = "stats_since"
extension = "pg_stat_statements"
grant = "pg_read_all_stats"

[keys]
database = { help = "the database" }
role = { help = "the role" }
query_id = { type = "integer", help = "identifier; its text is in the view statement_texts" }
toplevel = { type = "boolean", help = "sent by a client, not by a function; 14 and later" }

[counters]
calls = { help = "executions" }
plans = { help = "times it was planned, with pg_stat_statements.track_planning" }
exec_ms = { type = "float", unit = "ms", help = "time executing" }
plan_ms = { type = "float", unit = "ms", help = "time planning" }
rows = { help = "rows returned or changed" }
blocks_hit = { unit = "blocks", help = "blocks found in shared_buffers" }
blocks_read = { unit = "blocks", help = "blocks not found in shared_buffers" }
blocks_dirtied = { unit = "blocks", help = "blocks changed" }
blocks_written = { unit = "blocks", help = "blocks written by the session itself" }
temp_blocks_read = { unit = "blocks", help = "blocks read from temporary files" }
temp_blocks_written = { unit = "blocks", help = "blocks written to temporary files" }
read_ms = { type = "float", unit = "ms", help = "time reading blocks, with track_io_timing" }
write_ms = { type = "float", unit = "ms", help = "time writing blocks, with track_io_timing" }
wal_bytes = { unit = "bytes", help = "WAL written" }
jit_ms = { type = "float", unit = "ms", help = "time of JIT compilation; 15 and later" }
*/
-- Without the texts, which need not be read each time.
SELECT d.datname AS database, r.rolname AS role, s.queryid AS query_id,
       true AS toplevel, -- before 14
       s.toplevel, -- since 14
       sum(s.calls)::bigint AS calls, sum(s.plans)::bigint AS plans,
       sum(s.total_exec_time) AS exec_ms, sum(s.total_plan_time) AS plan_ms,
       sum(s.rows)::bigint AS rows, sum(s.shared_blks_hit)::bigint AS blocks_hit,
       sum(s.shared_blks_read)::bigint AS blocks_read,
       sum(s.shared_blks_dirtied)::bigint AS blocks_dirtied,
       sum(s.shared_blks_written)::bigint AS blocks_written,
       sum(s.temp_blks_read)::bigint AS temp_blocks_read,
       sum(s.temp_blks_written)::bigint AS temp_blocks_written,
       sum(s.blk_read_time) AS read_ms, sum(s.blk_write_time) AS write_ms, -- before 17
       sum(s.shared_blk_read_time) AS read_ms, sum(s.shared_blk_write_time) AS write_ms, -- since 17
       max(s.stats_since)::text AS stats_since, -- since 17
       NULL::float8 AS jit_ms, -- before 15
       sum(s.jit_generation_time + s.jit_inlining_time -- since 15
           + s.jit_optimization_time + s.jit_emission_time) AS jit_ms, -- since 15
       sum(s.wal_bytes)::bigint AS wal_bytes
FROM @extschema@.pg_stat_statements(false) AS s
LEFT JOIN pg_catalog.pg_database AS d ON d.oid = s.dbid
LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = s.userid
WHERE s.queryid IS NOT NULL
GROUP BY 1, 2, 3, 4
