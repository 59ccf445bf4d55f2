-- Who receives WAL, and how far replay is behind. pg_receivewal and base backups replay nothing.
SELECT coalesce(nullif(s.application_name, ''), 'a standby') AS name, host(s.client_addr) AS address,
       s.state, s.sync_state,
       greatest(here.lsn - s.replay_lsn, 0)::bigint AS behind,
       extract(epoch FROM s.replay_lag)::float8 AS seconds,
       EXISTS (SELECT FROM pg_catalog.pg_replication_slots AS l
               WHERE l.active_pid = s.pid AND l.slot_type = 'logical') AS logical
FROM pg_catalog.pg_stat_replication AS s,
     (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
             ELSE pg_current_wal_lsn() END AS lsn) AS here
WHERE s.state IS DISTINCT FROM 'backup' AND coalesce(s.application_name, '') !~ 'receive_?wal'
ORDER BY behind DESC NULLS LAST, name
