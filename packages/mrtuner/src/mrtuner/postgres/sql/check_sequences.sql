-- Sequences of which half is used, or whose value the role may not see. The column that a sequence
-- fills, because it owns it or by its default, may hold less than the sequence; partitions have the
-- column of their root. classid is cast, since the planner would otherwise search all defaults for each
-- sequence: 20 s for 10,000 of them.
WITH sequence AS MATERIALIZED (
    SELECT q.seqrelid, n.nspname AS schema, c.relname AS name, q.seqmax,
           has_sequence_privilege(c.oid, 'USAGE') OR has_sequence_privilege(c.oid, 'SELECT')
               AS readable
    FROM pg_catalog.pg_sequence AS q
    JOIN pg_catalog.pg_class AS c ON c.oid = q.seqrelid
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE q.seqincrement > 0 AND NOT q.seqcycle AND c.relpersistence <> 't'
), used AS (
    SELECT s.schema, s.name, s.readable, fills.table_schema, fills.table, fills.column, fills.type,
           CASE WHEN s.readable THEN pg_sequence_last_value(s.seqrelid) END AS last,
           least(s.seqmax, fills.most) AS most
    FROM sequence AS s
    LEFT JOIN LATERAL (
        SELECT DISTINCT n.nspname AS table_schema, r.relname AS table, a.attname AS column,
               format_type(a.atttypid, NULL) AS type,
               CASE a.atttypid WHEN 'int2'::regtype THEN 32767
                               WHEN 'int4'::regtype THEN 2147483647 END AS most
        FROM (
            SELECT d.refobjid AS relation, d.refobjsubid AS number
            FROM pg_catalog.pg_depend AS d
            WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = s.seqrelid
              AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i')
            UNION
            SELECT v.adrelid, v.adnum
            FROM pg_catalog.pg_depend AS d
            JOIN pg_catalog.pg_attrdef AS v ON v.oid = d.objid
            WHERE d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = s.seqrelid
              AND d.classid::bigint = 'pg_catalog.pg_attrdef'::regclass::bigint
        ) AS f
        JOIN pg_catalog.pg_class AS t ON t.oid = f.relation AND t.relkind IN ('r', 'p', 'f')
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid = t.oid AND a.attnum = f.number
        JOIN pg_catalog.pg_class AS r
            ON r.oid = CASE WHEN t.relispartition THEN pg_partition_root(t.oid) ELSE t.oid END
        JOIN pg_catalog.pg_namespace AS n ON n.oid = r.relnamespace
    ) AS fills ON true
)
SELECT * FROM used
WHERE NOT readable OR last >= most / 2
ORDER BY last::numeric / most DESC NULLS LAST, schema, name
LIMIT 1000
