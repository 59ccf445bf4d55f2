-- Calls and execution time [ms] of this database's statements, of every role; hidden ones have no id.
SELECT userid::bigint AS role, queryid AS id, sum(calls)::bigint AS calls,
       sum(total_exec_time)::float AS ms
FROM @extschema@.pg_stat_statements(false)
WHERE dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
GROUP BY userid, queryid
