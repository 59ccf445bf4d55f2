SELECT backend_type, object, context, stats_reset::text AS stats_reset,
       reads, read_bytes::bigint AS read_bytes, read_time AS read_ms,
       writes, write_bytes::bigint AS write_bytes, write_time AS write_ms,
       extends, extend_bytes::bigint AS extend_bytes,
       hits, evictions, fsyncs, fsync_time AS fsync_ms
FROM pg_catalog.pg_stat_io
