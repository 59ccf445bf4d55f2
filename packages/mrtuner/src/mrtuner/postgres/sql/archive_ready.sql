-- WAL that waits to be archived, by the files' status, and how long the oldest has. Of a standby only
-- where it archives: the files of one that was a primary may wait for ever.
SELECT count(*) * pg_size_bytes(current_setting('wal_segment_size')) AS behind,
       extract(epoch FROM clock_timestamp() - min(modification))::float8 AS waits
FROM pg_ls_archive_statusdir()
WHERE name LIKE '%.ready'
HAVING NOT pg_is_in_recovery() OR current_setting('archive_mode') = 'always'
