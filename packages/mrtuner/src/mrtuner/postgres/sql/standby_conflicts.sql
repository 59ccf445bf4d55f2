-- Queries that replay cancelled on this standby, by cause, in all databases since their last reset.
SELECT coalesce(sum(confl_snapshot), 0)::bigint AS snapshot,
       coalesce(sum(confl_lock), 0)::bigint AS lock,
       coalesce(sum(confl_bufferpin), 0)::bigint AS bufferpin,
       coalesce(sum(confl_deadlock), 0)::bigint AS deadlock,
       coalesce(sum(confl_tablespace), 0)::bigint AS tablespace
FROM pg_catalog.pg_stat_database_conflicts
WHERE pg_is_in_recovery()
