-- What a standby receives and replays; no row on a primary.
SELECT EXISTS (SELECT FROM pg_catalog.pg_stat_wal_receiver WHERE status = 'streaming') AS streaming,
       pg_is_wal_replay_paused() AS paused,
       greatest(pg_last_wal_receive_lsn() - pg_last_wal_replay_lsn(), 0)::bigint AS waiting,
       extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 AS idle_seconds
WHERE pg_is_in_recovery()
