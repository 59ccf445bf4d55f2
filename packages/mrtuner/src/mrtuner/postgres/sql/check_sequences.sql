-- Sequences of which half is used, or whose value the role may not see. The column that a sequence
-- fills, because it owns it or by its default, may hold less than the sequence; partitions have the
-- column of their root, domains the numbers of their type. A sequence that begins again at its end
-- matters where a key would repeat. classid is cast, since the planner would otherwise search all
-- defaults for each sequence: 20 s for 10,000 of them.
WITH RECURSIVE holds AS (
    SELECT t.oid AS type, t.oid AS base, h.most
    FROM (VALUES ('int2'::regtype, 32767::bigint), ('int4', 2147483647), ('int8', NULL)) AS h (type, most)
    JOIN pg_catalog.pg_type AS t ON t.oid = h.type
    UNION ALL
    SELECT d.oid, h.base, h.most
    FROM holds AS h JOIN pg_catalog.pg_type AS d ON d.typbasetype = h.type AND d.typtype = 'd'
), sequence AS MATERIALIZED (
    SELECT q.seqrelid, n.nspname AS schema, c.relname AS name, q.seqcycle AS cycles,
           sign(q.seqincrement)::int AS step,
           CASE WHEN q.seqincrement > 0 THEN q.seqmax ELSE q.seqmin END::numeric AS most,
           CASE WHEN q.seqincrement > 0 THEN least(q.seqstart, greatest(q.seqmin, 1))
                ELSE greatest(q.seqstart, least(q.seqmax, -1)) END AS first,
           p.readable, CASE WHEN p.readable THEN pg_sequence_last_value(q.seqrelid) END AS last
    FROM pg_catalog.pg_sequence AS q
    JOIN pg_catalog.pg_class AS c ON c.oid = q.seqrelid
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    CROSS JOIN LATERAL (
        SELECT has_sequence_privilege(c.oid, 'USAGE') OR has_sequence_privilege(c.oid, 'SELECT')
               AS readable
    ) AS p
    WHERE c.relpersistence <> 't'
), used AS (
    SELECT s.schema, s.name, s.readable, s.cycles, s.step, s.first,
           fills.table_schema, fills.table, fills.column, fills.type, fills.domain,
           s.last,
           s.step * least(s.step * s.most, fills.most + (s.step < 0)::int) AS most,
           s.step * s.most >= fills.most + (s.step < 0)::int AS narrow
    FROM sequence AS s
    LEFT JOIN LATERAL (
        SELECT n.nspname AS table_schema, r.relname AS table, a.attname AS column,
               format_type(h.base, NULL) AS type,
               CASE WHEN h.base <> h.type THEN format_type(h.type, NULL) END AS domain,
               h.most, bool_or(s.cycles AND EXISTS (
                   SELECT FROM pg_catalog.pg_index AS i
                   WHERE i.indrelid = t.oid AND i.indisunique AND i.indnkeyatts = 1
                     AND i.indkey[0] = a.attnum AND i.indpred IS NULL
               )) AS key
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
        LEFT JOIN holds AS h ON h.type = a.atttypid
        JOIN pg_catalog.pg_class AS r
            ON r.oid = CASE WHEN t.relispartition THEN pg_partition_root(t.oid) ELSE t.oid END
        JOIN pg_catalog.pg_namespace AS n ON n.oid = r.relnamespace
        GROUP BY n.nspname, r.relname, a.attname, h.base, h.type, h.most
    ) AS fills ON true
    WHERE (NOT s.cycles OR fills.key)
      -- Of most, less than half is used whatever they fill: int2 holds the least.
      AND (NOT s.readable OR 2 * (s.step * (s.last::numeric - s.first) + 1)
                             >= least(s.step * s.most, 32767) - s.step * s.first + 1)
), share AS (
    SELECT schema, name, readable, cycles, step > 0 AS ascends, table_schema, "table",
           "column", type, domain, coalesce(narrow, false) AS narrow,
           least(greatest(0, step * (most - last)), 9223372036854775807)::bigint AS "left",
           CASE WHEN last IS NOT NULL -- least() leaves out what is unknown
                THEN least(1, (step * (last::numeric - first) + 1)
                              / greatest(1, step * (most - first) + 1))::float8
           END AS share
    FROM used
)
SELECT * FROM share
WHERE NOT readable OR share >= 0.5
ORDER BY share DESC NULLS LAST, schema, name
LIMIT 1000
