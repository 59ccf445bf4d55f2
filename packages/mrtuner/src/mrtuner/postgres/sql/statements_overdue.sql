-- Statements of any database that began in the last so many seconds, still run, and have run for longer
-- [s] than they ever took. Since 14 a session shows which statement it runs.
SELECT extract(epoch FROM a.age)::float AS age, s.longest
FROM (SELECT datid, query_id, clock_timestamp() - query_start AS age FROM pg_catalog.pg_stat_activity
      WHERE state = 'active' AND backend_type = 'client backend') AS a
JOIN (SELECT dbid, queryid, max(max_exec_time)::float / 1000 AS longest
      FROM @extschema@.pg_stat_statements(false) GROUP BY dbid, queryid) AS s
  ON s.dbid = a.datid AND s.queryid = a.query_id
WHERE extract(epoch FROM a.age) BETWEEN s.longest AND %s
