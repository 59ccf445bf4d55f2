SELECT extract(epoch FROM clock_timestamp() - stats_reset)::float AS seconds,
       wal_bytes::bigint AS wal_bytes, wal_buffers_full
FROM pg_catalog.pg_stat_wal
