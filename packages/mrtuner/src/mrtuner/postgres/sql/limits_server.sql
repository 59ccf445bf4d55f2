-- The data directory is hidden from roles that may not read all settings.
SELECT current_setting('max_connections')::int AS max_connections,
       (SELECT coalesce(sum(setting::int), 0) FROM pg_catalog.pg_settings
        WHERE name = ANY (%s))::int AS reserved,
       CASE WHEN pg_has_role('pg_read_all_settings', 'USAGE')
            THEN current_setting('data_directory') END AS data_directory,
       pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all
