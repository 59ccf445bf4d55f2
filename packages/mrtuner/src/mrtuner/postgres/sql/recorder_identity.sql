-- The system identifier tells one cluster from another behind the same name. After a crash, the
-- postmaster is the same, but not the checkpointer; and a server that finds that it was not shut
-- down begins its statistics anew, as before 15 each standby does that starts.
SELECT current_setting('server_version_num')::int AS version_num,
       pg_postmaster_start_time()::text AS started,
       CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE')
            THEN (SELECT system_identifier::text FROM pg_control_system()) END AS system,
       pg_is_in_recovery() AS standby,
       (SELECT backend_start::text FROM pg_stat_activity
        WHERE backend_type = 'checkpointer') AS checkpointer,
       coalesce((SELECT stats_reset - pg_postmaster_start_time() BETWEEN '0s' AND '1min'
                 FROM pg_stat_bgwriter), false)
           AND NOT pg_is_in_recovery() -- before 15
           AS recovered
