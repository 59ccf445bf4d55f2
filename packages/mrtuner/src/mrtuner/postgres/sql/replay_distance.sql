-- How far whoever replays this server's WAL is behind [bytes]; NULL if the role may not see it.
-- greatest ignores NULL: who has not replayed anything yet is not behind. Who lacks
-- pg_read_all_stats sees NULL in all columns of a WAL sender, and must not take it for that.
SELECT CASE WHEN s.state IS NOT NULL
            THEN greatest(pg_current_wal_lsn() - s.replay_lsn, 0)::bigint END AS behind
FROM pg_catalog.pg_stat_replication AS s
LEFT JOIN pg_catalog.pg_replication_slots AS l ON l.active_pid = s.pid
WHERE coalesce(s.state, '') NOT IN ('backup', 'startup') AND l.slot_type IS DISTINCT FROM 'logical'
  AND coalesce(s.application_name, '') !~ 'receive_?wal'
