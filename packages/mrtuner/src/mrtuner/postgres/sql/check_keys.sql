-- Unique integer columns that no sequence fills, of which half of the type is used, or whose statistics
-- the role may not see. A column with a default is left out: that is nextval() nearly always. The
-- highest value is the one that the last ANALYZE saw: max() would take a lock on each table. Values in
-- no order, such as hashes, do not run out: their correlation is near 0. A key that is counted down, as
-- a negative correlation shows, ends at its lowest value. Partitions have the column of their root,
-- domains the numbers of their type.
WITH RECURSIVE holds AS MATERIALIZED (
    SELECT t.oid AS type, t.oid AS base, h.most
    FROM (VALUES ('int2'::regtype, 32767), ('int4', 2147483647)) AS h (type, most)
    JOIN pg_catalog.pg_type AS t ON t.oid = h.type
    UNION ALL
    SELECT d.oid, h.base, h.most
    FROM holds AS h JOIN pg_catalog.pg_type AS d ON d.typbasetype = h.type AND d.typtype = 'd'
), owned AS MATERIALIZED (
    SELECT d.refobjid AS relation, d.refobjsubid::int2 AS number
    FROM pg_catalog.pg_sequence AS q
    JOIN pg_catalog.pg_depend AS d ON d.objid = q.seqrelid
    WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.refobjsubid > 0
      AND d.deptype IN ('a', 'i')
), key AS MATERIALIZED (
    SELECT DISTINCT c.oid, n.nspname AS schema, c.relname AS table, a.attname AS column,
           CASE WHEN c.relispartition THEN pg_partition_root(c.oid) ELSE c.oid END AS root,
           format_type(o.base, NULL) AS type,
           CASE WHEN o.base <> o.type THEN format_type(o.type, NULL) END AS domain, o.most,
           has_column_privilege(c.oid, a.attnum, 'SELECT')
               AND NOT (c.relrowsecurity AND row_security_active(c.oid)) AS readable
    FROM pg_catalog.pg_index AS i
    JOIN pg_catalog.pg_class AS c ON c.oid = i.indrelid
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
    JOIN holds AS o ON o.type = a.atttypid
    WHERE i.indisunique AND i.indnkeyatts = 1
      AND NOT a.atthasdef AND a.attidentity = ''
      AND c.relkind = 'r' AND c.relpersistence <> 't'
      AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
      -- NOT IN is hashed; an anti-join may compare each column with each sequence.
      AND (c.oid, a.attnum) NOT IN (SELECT relation, number FROM owned)
), used AS (
    SELECT k.root, k.column, k.type, k.domain, k.most, bool_and(k.readable) AS readable,
           max(h.last) AS last
    FROM key AS k
    -- OFFSET 0: each key is looked up by its name; joined, all statistics are read for each key.
    LEFT JOIN LATERAL (
        SELECT CASE WHEN s.correlation < 0 THEN greatest(b.bounds[array_upper(b.bounds, 1)], -b.bounds[1])
                    ELSE b.bounds[array_upper(b.bounds, 1)] END AS last
        FROM pg_catalog.pg_stats AS s
        CROSS JOIN LATERAL (SELECT s.histogram_bounds::text::bigint[] AS bounds) AS b
        WHERE k.readable AND s.schemaname = k.schema AND s.tablename = k.table
          AND s.attname = k.column AND abs(s.correlation) >= 0.5
        OFFSET 0
    ) AS h ON true
    GROUP BY k.root, k.column, k.type, k.domain, k.most
)
SELECT n.nspname AS schema, c.relname AS table, u.column, u.type, u.domain, u.most, u.readable, u.last
FROM used AS u
JOIN pg_catalog.pg_class AS c ON c.oid = u.root
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = u.root AND a.attname = u.column
WHERE NOT a.atthasdef AND a.attidentity = '' AND (NOT u.readable OR u.last >= u.most / 2)
ORDER BY u.last::numeric / u.most DESC NULLS LAST, n.nspname, c.relname, u.column
LIMIT 1000
