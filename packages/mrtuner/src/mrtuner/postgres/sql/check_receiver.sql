-- What a standby receives and replays; no row on a primary. `held`: replay waits for a query here. Of the
-- receiver, roles without pg_read_all_stats see only that it is there.
SELECT (SELECT count(*) > 0 AND bool_or(status = 'streaming')
        FROM pg_catalog.pg_stat_wal_receiver) AS streaming,
       pg_is_wal_replay_paused() AS paused,
       CASE WHEN pg_last_wal_receive_lsn() IS NOT NULL -- else greatest would return 0
            THEN greatest(pg_last_wal_receive_lsn() - pg_last_wal_replay_lsn(), 0)::bigint
       END AS waiting,
       EXISTS (SELECT FROM pg_catalog.pg_stat_activity
               WHERE backend_type = 'startup' AND (wait_event LIKE 'RecoveryConflict%'
                     -- The latter is what 19 calls the former.
                     OR wait_event IN ('BufferPin', 'BufferCleanup') OR wait_event_type = 'Lock')) AS held,
       extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 AS idle_seconds
WHERE pg_is_in_recovery()
