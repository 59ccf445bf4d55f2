-- A WAL file's name tells its place: timeline, high 32 bits, segment. Nothing is archived where
-- archive_mode is off; a standby archives only with `always`.
SELECT archived_count AS archived, failed_count AS failed,
       coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false) AS failing,
       extract(epoch FROM clock_timestamp() - last_archived_time)::float8 AS idle,
       extract(epoch FROM clock_timestamp() - last_failed_time)::float8 AS failed_ago,
       CASE WHEN NOT pg_is_in_recovery() AND last_archived_wal ~ '^[0-9A-F]{24}$' THEN
           greatest((pg_current_wal_lsn() - '0/0'::pg_lsn)
               - (('x' || substr(last_archived_wal, 9, 8))::bit(32)::bigint * 4294967296
                  + (('x' || substr(last_archived_wal, 17, 8))::bit(32)::bigint + 1)
                    * pg_size_bytes(current_setting('wal_segment_size'))), 0)::bigint
       END AS behind
FROM pg_catalog.pg_stat_archiver
WHERE current_setting('archive_mode') <> 'off'
