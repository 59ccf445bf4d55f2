-- Tables without statistics: neither VACUUM nor ANALYZE has counted their rows. Autovacuum never
-- analyzes a partitioned table itself.
SELECT n.nspname AS schema, c.relname AS name, s.n_live_tup AS rows, false AS partitioned
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_stat_user_tables AS s ON s.relid = c.oid
WHERE c.relkind IN ('r', 'm') AND c.relpersistence <> 't' AND s.n_live_tup >= 1000
  AND s.last_analyze IS NULL AND s.last_autoanalyze IS NULL
  AND c.reltuples = 0 AND c.relpages = 0 -- before 14
  AND c.reltuples < 0 -- since 14
UNION ALL
SELECT n.nspname, c.relname, sum(p.reltuples)::bigint, true
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_inherits AS h ON h.inhparent = c.oid
JOIN pg_catalog.pg_class AS p ON p.oid = h.inhrelid AND p.reltuples > 0
WHERE c.relkind = 'p' AND NOT c.relispartition
  AND c.reltuples <= 0 -- before 14
  AND c.reltuples < 0 -- since 14
GROUP BY n.nspname, c.relname
HAVING sum(p.reltuples) >= 10000
ORDER BY rows DESC, schema, name
LIMIT 100
