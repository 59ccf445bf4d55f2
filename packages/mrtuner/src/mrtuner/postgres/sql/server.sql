-- Others' backend_type is NULL to a lesser role; clients (and parallel workers) have a user and
-- a database.
SELECT current_setting('server_version_num')::integer AS version_num,
       split_part(current_setting('server_version'), ' ', 1) AS version,
       current_setting('is_superuser') = 'on' AS superuser,
       pg_has_role('pg_read_all_settings', 'USAGE') AS reads_settings,
       pg_has_role('pg_read_all_stats', 'USAGE') AS reads_stats,
       pg_is_in_recovery() AS standby,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity
        WHERE pid <> pg_backend_pid()
          AND (backend_type = 'client backend'
               OR backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL)) AS connections,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity
        WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
          AND state IN ('active', 'fastpath function call')) AS active,
       (SELECT count(*) FROM pg_catalog.pg_stat_replication AS s
        WHERE coalesce(s.state, '') NOT IN ('backup', 'startup')
          AND NOT EXISTS (SELECT FROM pg_catalog.pg_replication_slots AS l
                          WHERE l.active_pid = s.pid AND l.slot_type = 'logical')) AS standbys
