SELECT stats_reset::text AS stats_reset,
       CASE WHEN NOT pg_is_in_recovery()
            THEN (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint END AS bytes,
       wal_records AS records, wal_fpi AS full_page_images, wal_buffers_full AS buffers_full
FROM pg_catalog.pg_stat_wal
