-- What the next start must have room for. Others' backend_type is NULL to a lesser role.
SELECT pg_is_in_recovery() AS standby,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity
        WHERE pid <> pg_backend_pid()
          AND (backend_type = 'client backend'
               OR backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL)) AS sessions,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity
        WHERE backend_type NOT IN (
            'archiver', 'autovacuum launcher', 'autovacuum worker', 'background writer',
            'checkpointer', 'client backend', 'io worker', 'logger', 'parallel worker',
            'slotsync worker', 'standalone backend', 'startup', 'walreceiver', 'walsender',
            'walsummarizer', 'walwriter')) AS workers,
       (SELECT count(*) FROM pg_catalog.pg_replication_slots) AS slots,
       (SELECT count(*) FROM pg_catalog.pg_replication_slots
        WHERE slot_type = 'logical') AS logical_slots,
       (SELECT count(*) FROM pg_catalog.pg_stat_replication) AS senders,
       (SELECT count(*) FROM pg_catalog.pg_prepared_xacts) AS prepared
