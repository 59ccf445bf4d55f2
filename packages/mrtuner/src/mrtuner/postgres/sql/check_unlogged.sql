-- Unlogged tables with rows, as counted or as VACUUM or ANALYZE left them: the true size needs a lock.
SELECT n.nspname AS schema, c.relname AS name,
       greatest(pg_stat_get_live_tuples(c.oid), c.reltuples::bigint) AS rows,
       c.relpages::bigint * current_setting('block_size')::int AS size
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence = 'u'
  AND (c.relpages > 0 OR pg_stat_get_live_tuples(c.oid) > 0)
ORDER BY size DESC, rows DESC, schema, name
LIMIT 100
