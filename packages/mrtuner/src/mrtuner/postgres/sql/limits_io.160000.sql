-- Operations as asked of the operating system, whose cache may answer; those of WAL
-- are in other views before 18.
SELECT coalesce(sum(reads), 0)::bigint AS reads,
       coalesce(sum(reads * op_bytes), 0)::bigint AS read_bytes, -- before 18
       coalesce(sum(read_bytes), 0)::bigint AS read_bytes, -- since 18
       coalesce(sum(coalesce(writes, 0) + coalesce(extends, 0)), 0)::bigint AS writes,
       coalesce(sum((coalesce(writes, 0) + coalesce(extends, 0)) * op_bytes), 0)::bigint -- before 18
       coalesce(sum(coalesce(write_bytes, 0) + coalesce(extend_bytes, 0)), 0)::bigint -- since 18
           AS written_bytes,
       coalesce(max(stats_reset)::text, '') AS reset
FROM pg_catalog.pg_stat_io
