-- Tables without statistics: neither VACUUM nor ANALYZE has counted their rows; or an index was built or
-- VACUUM ran, which count them as well, and the role sees that no column has any. After pg_upgrade (before
-- 18) nobody has counted any: such a table is known by its size alone, which takes its lock for a moment;
-- NULL where another session has locked it against that. Autovacuum never analyzes a partitioned table
-- itself; its rows are those of its leaves. What autovacuum has counted enough changes of is awaited: it
-- comes within autovacuum_naptime, unless all workers that the role may see are at work. Counters come
-- from the functions below the view, which joins every index.
WITH RECURSIVE uncounted AS MATERIALIZED (
    SELECT c.oid, n.nspname AS schema, c.relname AS name, c.reltuples >= 1000 AS counted,
           greatest(pg_stat_get_live_tuples(c.oid), c.reltuples::bigint) AS rows,
           CASE WHEN c.oid NOT IN (
                    SELECT l.relation FROM pg_catalog.pg_locks AS l
                    JOIN pg_catalog.pg_database AS d ON d.oid = l.database
                    WHERE l.relation IS NOT NULL AND l.mode = 'AccessExclusiveLock'
                      AND d.datname = current_database()
                ) THEN pg_relation_size(c.oid) END AS size,
           o.enabled IS FALSE AS off,
           o.enabled IS NOT FALSE
           AND pg_stat_get_mod_since_analyze(c.oid) > coalesce(
               o.threshold, current_setting('autovacuum_analyze_threshold')::bigint)
               + coalesce(o.scale, current_setting('autovacuum_analyze_scale_factor')::float8)
                 * greatest(c.reltuples, 0) AS awaited
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    CROSS JOIN LATERAL (
        SELECT bool_and(option_value::bool) FILTER (WHERE option_name = 'autovacuum_enabled') AS enabled,
               -- In hexadecimal, no type reads it before 16.
               max(CASE WHEN option_value ~ '^[0-9.]+([eE][+]?[0-9]+)?$' THEN option_value::numeric END)
                   FILTER (WHERE option_name = 'autovacuum_analyze_threshold') AS threshold,
               max(CASE WHEN option_value ~ '^[0-9.]+([eE][+-]?[0-9]+)?$' THEN option_value::float8 END)
                   FILTER (WHERE option_name = 'autovacuum_analyze_scale_factor') AS scale
        FROM pg_options_to_table(c.reloptions)
    ) AS o
    WHERE c.relkind IN ('r', 'm') AND c.relpersistence <> 't'
      AND n.nspname NOT IN ('pg_catalog', 'information_schema')
      AND pg_stat_get_last_analyze_time(c.oid) IS NULL AND pg_stat_get_last_autoanalyze_time(c.oid) IS NULL
      AND (c.reltuples = 0 AND c.relpages = 0 OR c.reltuples >= 1000) -- before 14
      AND (c.reltuples < 0 OR c.reltuples >= 1000) -- since 14
), part AS (
    SELECT c.oid AS root, c.oid
    FROM pg_catalog.pg_class AS c
    WHERE c.relkind = 'p' AND NOT c.relispartition
      AND c.reltuples < 0 -- since 14
    UNION ALL
    SELECT p.root, h.inhrelid
    FROM part AS p JOIN pg_catalog.pg_inherits AS h ON h.inhparent = p.oid
), partitioned AS (
    SELECT p.root, sum(c.reltuples)::bigint AS rows
    FROM part AS p
    JOIN pg_catalog.pg_class AS c ON c.oid = p.oid AND c.relkind <> 'p' AND c.reltuples > 0
    GROUP BY p.root
    HAVING sum(c.reltuples) >= 10000
)
SELECT schema, name, rows, size, false AS partitioned, rows >= 1000 OR size IS NOT NULL AS readable,
       off, awaited AND a.comes AS awaited
FROM uncounted AS u
CROSS JOIN (
    SELECT current_setting('autovacuum')::bool AND current_setting('track_counts')::bool
           AND count(*) < current_setting('autovacuum_max_workers')::int AS comes
    FROM pg_catalog.pg_stat_activity WHERE backend_type = 'autovacuum worker'
) AS a
WHERE CASE WHEN counted
           THEN has_any_column_privilege(u.oid, 'SELECT') AND NOT row_security_active(u.oid)
                AND NOT EXISTS (SELECT FROM pg_catalog.pg_stats AS s
                                WHERE s.schemaname = u.schema AND s.tablename = u.name)
           ELSE rows >= 1000 OR size IS NULL OR size >= 1048576 END
UNION ALL
SELECT n.nspname, c.relname, p.rows, NULL, true,
       seen.readable, false, false -- before 14
       true, false, false -- since 14
FROM partitioned AS p
JOIN pg_catalog.pg_class AS c ON c.oid = p.root
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
-- ANALYZE does not set reltuples of a partitioned table there. -- before 14
CROSS JOIN LATERAL (SELECT has_any_column_privilege(c.oid, 'SELECT') -- before 14
                           AND NOT row_security_active(c.oid) AS readable) AS seen -- before 14
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_stats AS s -- before 14
                  WHERE s.schemaname = n.nspname AND s.tablename = c.relname AND s.inherited) -- before 14
ORDER BY rows DESC, schema, name
LIMIT 100
