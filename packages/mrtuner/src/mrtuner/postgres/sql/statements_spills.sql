-- Roles whose statements wrote temporary files: which wrote most in one call, on average. What builds
-- indexes is left out: maintenance_work_mem governs it. Texts that are hidden, or not asked for, are
-- taken for queries.
SELECT r.rolname AS role, count(*) AS statements, sum(s.calls)::bigint AS calls,
       sum(s.temp_blks_written)::bigint * current_setting('block_size')::bigint AS size,
       max(s.temp_blks_written / s.calls)::bigint * current_setting('block_size')::bigint
           AS largest,
       NULL::float AS seconds, -- before 17
       extract(epoch FROM clock_timestamp() - min(s.stats_since))::float AS seconds, -- since 17
       (SELECT count(*) FROM pg_catalog.pg_stat_activity AS a WHERE a.usesysid = s.userid)
           AS sessions
FROM @extschema@.pg_stat_statements(%s) AS s JOIN pg_catalog.pg_roles AS r ON r.oid = s.userid
WHERE s.temp_blks_written > 0 AND s.calls > 0
  AND coalesce(s.query, '') !~* %s
GROUP BY r.rolname, s.userid
ORDER BY size DESC
