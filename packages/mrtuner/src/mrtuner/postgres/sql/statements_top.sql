-- Statements that can be planned, by the time they took. Utility statements may hold secrets: their
-- texts stay at the server. Hidden ones have no text ("<insufficient privilege>"). What looks into
-- catalogs and statistics is left out: monitoring, and MrTuner itself.
SELECT s.queryid AS id, s.query AS text, r.rolname AS role, s.calls,
       s.total_exec_time::float / 1000 AS seconds, s.rows
FROM @extschema@.pg_stat_statements AS s LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = s.userid
WHERE s.dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
  AND s.queryid IS NOT NULL
  AND s.query ~* '^(\s|\(|--[^\n]*\n|/\*([^*]|\*+[^*/])*\*+/)*(select|insert|update|delete|merge|with|values|table)\M'
  AND s.query !~* '\m(pg_catalog|information_schema)\.|\mpg_(stat|settings|backend_pid)'
ORDER BY s.total_exec_time DESC, s.queryid
LIMIT %s
