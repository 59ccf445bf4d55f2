-- Unlogged tables with rows, as counted or as VACUUM or ANALYZE left them. A crash empties the table, and
-- leaves that estimate in pg_class: the true size tells, which takes its lock for a moment; NULL where
-- another session has locked it against that. None can become logged before the unlogged tables that its
-- foreign keys lead to; those with fewer come first.
WITH RECURSIVE unlogged AS MATERIALIZED (
    SELECT c.oid, n.nspname::text AS schema, c.relname::text AS name,
           greatest(pg_stat_get_live_tuples(c.oid), c.reltuples::bigint) AS rows
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND c.relpersistence = 'u'
), direct AS MATERIALIZED (
    SELECT DISTINCT f.conrelid AS oid, f.confrelid AS other
    FROM pg_catalog.pg_constraint AS f
    JOIN unlogged AS o ON o.oid = f.confrelid
    WHERE f.contype = 'f' AND f.conrelid <> f.confrelid
), refers AS (
    SELECT oid, other FROM direct
    UNION
    SELECT r.oid, d.other FROM refers AS r JOIN direct AS d ON d.oid = r.other
), counted AS MATERIALIZED (
    SELECT oid, count(*) AS others, bool_or(oid = other) AS circular FROM refers GROUP BY oid
), sized AS MATERIALIZED (
    SELECT *, CASE WHEN oid NOT IN (
                    SELECT l.relation FROM pg_catalog.pg_locks AS l
                    JOIN pg_catalog.pg_database AS d ON d.oid = l.database
                    WHERE l.relation IS NOT NULL AND l.mode = 'AccessExclusiveLock'
                      AND d.datname = current_database()
                ) THEN pg_relation_size(oid) END AS size
    FROM unlogged WHERE rows > 0
)
SELECT s.schema, s.name, s.rows, s.size, coalesce(f.before, '{}') AS before,
       coalesce(c.circular, false) OR coalesce(f.circular, false) AS circular
FROM sized AS s
LEFT JOIN counted AS c ON c.oid = s.oid
CROSS JOIN LATERAL (
    SELECT array_agg(ARRAY[o.schema, o.name] ORDER BY coalesce(n.others, 0), o.schema, o.name) AS before,
           bool_or(n.circular) AS circular
    FROM refers AS r
    JOIN unlogged AS o ON o.oid = r.other
    LEFT JOIN counted AS n ON n.oid = o.oid
    WHERE r.oid = s.oid AND r.other <> s.oid
) AS f
WHERE s.size > 0 OR s.size IS NULL
ORDER BY size DESC NULLS LAST, rows DESC, schema, name
LIMIT 100
