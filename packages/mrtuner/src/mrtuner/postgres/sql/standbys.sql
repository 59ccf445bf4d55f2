-- What replays this server's WAL: the standbys attached now, and the physical slots of those away.
-- pg_receivewal and Barman's barman_receive_wal only store it.
SELECT coalesce(nullif(s.application_name, ''), 'a standby')
       || coalesce(' at ' || host(s.client_addr), '') AS name
FROM pg_catalog.pg_stat_replication AS s
LEFT JOIN pg_catalog.pg_replication_slots AS l ON l.active_pid = s.pid
WHERE coalesce(s.state, '') NOT IN ('backup', 'startup') AND l.slot_type IS DISTINCT FROM 'logical'
  AND coalesce(s.application_name, '') !~ 'receive_?wal'
UNION ALL
SELECT 'the one of the slot ' || slot_name || ', away now'
FROM pg_catalog.pg_replication_slots
WHERE slot_type = 'physical' AND NOT active AND NOT temporary
