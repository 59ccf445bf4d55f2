-- Who receives WAL, and how far replay is behind. pg_receivewal and Barman's barman_receive_wal only
-- store it, but commits may wait for them. A base backup does neither. Who is in startup has asked for no
-- WAL yet: a subscription that copies a table.
SELECT coalesce(nullif(s.application_name, ''), 'a standby') AS name, host(s.client_addr) AS address,
       s.state, s.sync_state,
       CASE WHEN s.replay_lsn IS NOT NULL -- else greatest would return 0
            THEN greatest(here.lsn - s.replay_lsn, 0)::bigint END AS behind,
       extract(epoch FROM s.replay_lag)::float8 AS seconds,
       s.state IS DISTINCT FROM 'startup' AND coalesce(s.application_name, '') !~ 'receive_?wal'
       AND NOT EXISTS (
           SELECT FROM pg_catalog.pg_replication_slots AS l
           WHERE l.active_pid = s.pid AND l.slot_type = 'logical') AS replays
FROM pg_catalog.pg_stat_replication AS s,
     (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
             ELSE pg_current_wal_lsn() END AS lsn) AS here
WHERE s.state IS DISTINCT FROM 'backup'
ORDER BY behind DESC NULLS LAST, name
