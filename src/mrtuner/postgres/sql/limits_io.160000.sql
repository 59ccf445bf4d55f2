-- Operations as asked of the operating system, whose cache may answer; WAL is in other views.
SELECT coalesce(sum(reads), 0)::bigint AS reads,
       coalesce(sum(reads * op_bytes), 0)::bigint AS read_bytes,
       coalesce(sum(coalesce(writes, 0) + coalesce(extends, 0)), 0)::bigint AS writes,
       coalesce(sum((coalesce(writes, 0) + coalesce(extends, 0)) * op_bytes), 0)::bigint
           AS written_bytes,
       coalesce(max(stats_reset)::text, '') AS reset
FROM pg_catalog.pg_stat_io
