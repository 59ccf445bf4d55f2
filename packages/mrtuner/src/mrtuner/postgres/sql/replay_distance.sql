-- How far whoever replays this server's WAL is behind [bytes]; NULL if the role may not see it.
SELECT greatest(pg_current_wal_lsn() - s.replay_lsn, 0)::bigint AS behind
FROM pg_catalog.pg_stat_replication AS s
LEFT JOIN pg_catalog.pg_replication_slots AS l ON l.active_pid = s.pid
WHERE s.state IS DISTINCT FROM 'backup' AND l.slot_type IS DISTINCT FROM 'logical'
  AND coalesce(s.application_name, '') !~ 'receive_?wal'
