-- The system identifier tells one cluster from another behind the same name.
SELECT current_setting('server_version_num')::int AS version_num,
       pg_postmaster_start_time()::text AS started,
       CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE')
            THEN (SELECT system_identifier::text FROM pg_control_system()) END AS system,
       pg_is_in_recovery() AS standby
