-- WAL that waits to be archived, by the files' status; no row on a standby.
SELECT count(*) * pg_size_bytes(current_setting('wal_segment_size')) AS behind
FROM pg_ls_archive_statusdir()
WHERE name LIKE '%.ready'
HAVING NOT pg_is_in_recovery()
