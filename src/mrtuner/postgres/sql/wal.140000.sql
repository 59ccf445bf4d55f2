SELECT extract(epoch FROM clock_timestamp() - stats_reset)::float AS seconds,
       wal_bytes::bigint AS wal_bytes
FROM pg_catalog.pg_stat_wal
