-- How much WAL each replication slot keeps, from where it stands to the end of WAL. While a subscription
-- copies a table, its slot is released, but its session has the slot's name. Source: tablesync.c.
SELECT slot_name AS name, slot_type AS kind,
       active OR EXISTS (SELECT FROM pg_catalog.pg_stat_replication AS r
                         WHERE r.application_name = slot_name AND r.state = 'startup') AS active,
       wal_status AS status,
       CASE WHEN restart_lsn IS NOT NULL -- else greatest would return 0
            THEN greatest(here.lsn - restart_lsn, 0)::bigint END AS retained, temporary,
       NULL::boolean AS failover, false AS synced, NULL::float8 AS idle -- before 17
       failover, synced, extract(epoch FROM clock_timestamp() - inactive_since)::float8 AS idle -- since 17
FROM pg_catalog.pg_replication_slots,
     (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
             ELSE pg_current_wal_lsn() END AS lsn) AS here
ORDER BY slot_name
