-- Unique integer columns that no sequence fills, of which half of the type is used, or whose statistics
-- the role may not see. A column with a default is left out: that is nextval() nearly always. The
-- highest value is the one that the last ANALYZE saw: max() would take a lock on each table. Values in
-- no order, such as hashes, do not run out: their correlation is near 0. Partitions have the column of
-- their root.
WITH owned AS MATERIALIZED (
    SELECT d.refobjid AS relation, d.refobjsubid::int2 AS number
    FROM pg_catalog.pg_sequence AS q
    JOIN pg_catalog.pg_depend AS d ON d.objid = q.seqrelid
    WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.refobjsubid > 0
      AND d.deptype IN ('a', 'i')
), key AS MATERIALIZED (
    SELECT DISTINCT c.oid, n.nspname AS schema, c.relname AS table, a.attname AS column,
           CASE WHEN c.relispartition THEN pg_partition_root(c.oid) ELSE c.oid END AS root,
           format_type(a.atttypid, NULL) AS type,
           CASE a.atttypid WHEN 'int2'::regtype THEN 32767 ELSE 2147483647 END AS most,
           has_column_privilege(c.oid, a.attnum, 'SELECT')
               AND NOT (c.relrowsecurity AND row_security_active(c.oid)) AS readable
    FROM pg_catalog.pg_index AS i
    JOIN pg_catalog.pg_class AS c ON c.oid = i.indrelid
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
    WHERE i.indisunique AND i.indnkeyatts = 1 AND a.atttypid IN ('int2'::regtype, 'int4'::regtype)
      AND NOT a.atthasdef AND a.attidentity = ''
      AND c.relkind = 'r' AND c.relpersistence <> 't'
      AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
      -- NOT IN is hashed; an anti-join may compare each column with each sequence.
      AND (c.oid, a.attnum) NOT IN (SELECT relation, number FROM owned)
), used AS (
    SELECT k.root, k.column, k.type, k.most, bool_and(k.readable) AS readable,
           max(h.bounds[array_upper(h.bounds, 1)]) AS last
    FROM key AS k
    -- OFFSET 0: each key is looked up by its name; joined, all statistics are read for each key.
    LEFT JOIN LATERAL (
        SELECT s.histogram_bounds::text::bigint[] AS bounds
        FROM pg_catalog.pg_stats AS s
        WHERE k.readable AND s.schemaname = k.schema AND s.tablename = k.table
          AND s.attname = k.column AND abs(s.correlation) >= 0.5
        OFFSET 0
    ) AS h ON true
    GROUP BY k.root, k.column, k.type, k.most
)
SELECT n.nspname AS schema, c.relname AS table, u.column, u.type, u.most, u.readable, u.last
FROM used AS u
JOIN pg_catalog.pg_class AS c ON c.oid = u.root
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = u.root AND a.attname = u.column
WHERE NOT a.atthasdef AND a.attidentity = '' AND (NOT u.readable OR u.last >= u.most / 2)
ORDER BY u.last::numeric / u.most DESC NULLS LAST, n.nspname, c.relname, u.column
LIMIT 1000
