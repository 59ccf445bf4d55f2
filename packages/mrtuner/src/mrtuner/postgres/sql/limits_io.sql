-- Before 16: blocks not found in shared_buffers, and those written from there.
SELECT d.reads::bigint AS reads, (d.reads * b.size)::bigint AS read_bytes,
       w.writes::bigint AS writes, (w.writes * b.size)::bigint AS written_bytes,
       coalesce(d.reset, '') AS reset
FROM (SELECT sum(blks_read) AS reads, max(stats_reset)::text AS reset
      FROM pg_catalog.pg_stat_database) AS d,
     (SELECT buffers_checkpoint + buffers_clean + buffers_backend AS writes
      FROM pg_catalog.pg_stat_bgwriter) AS w,
     (SELECT current_setting('block_size')::int AS size) AS b
