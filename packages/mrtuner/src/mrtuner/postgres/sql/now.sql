-- pg_current_wal_lsn() fails during recovery; a standby writes no WAL of its own.
SELECT extract(epoch FROM clock_timestamp())::float AS at,
       CASE WHEN NOT pg_is_in_recovery()
            THEN (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint
       END AS written
