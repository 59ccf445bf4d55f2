-- What forbids another type for given columns of tables or of their partitions, whether one is part of a
-- partition key, and the columns that reference them, which end at the same number.
WITH RECURSIVE holds AS (
    SELECT h.type::oid AS type FROM (VALUES ('int2'::regtype), ('int4')) AS h (type)
    UNION ALL
    SELECT d.oid
    FROM holds AS h JOIN pg_catalog.pg_type AS d ON d.typbasetype = h.type AND d.typtype = 'd'
)
SELECT w.schema, w.table, w.column,
       array_agg(DISTINCT u.forbids) FILTER (WHERE u.forbids IS NOT NULL) AS forbids,
       jsonb_agg(DISTINCT u.refers) FILTER (WHERE u.refers IS NOT NULL) AS refers,
       bool_or(u.partitions) AS partitions
FROM unnest(%s::text[], %s::text[], %s::text[]) AS w (schema, "table", "column")
JOIN pg_catalog.pg_namespace AS n ON n.nspname = w.schema
JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = w.table
CROSS JOIN LATERAL (
    SELECT c.oid::regclass AS relid UNION SELECT p.relid FROM pg_partition_tree(c.oid) AS p
) AS t
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = t.relid AND a.attname = w.column
CROSS JOIN LATERAL (
    -- A view's rule is told as the view, a generated column by its name: its expression depends on the
    -- column (before 15: it does itself).
    SELECT CASE
               WHEN d.classid IN ('pg_catalog.pg_class'::regclass, 'pg_catalog.pg_attrdef'::regclass)
               THEN 'generated ' || pg_describe_object(
                   'pg_catalog.pg_class'::regclass, t.relid, coalesce(e.adnum, d.objsubid))
               ELSE regexp_replace(
                   pg_describe_object(d.classid, d.objid, d.objsubid), '^rule "?_RETURN"? on ', '')
           END AS forbids,
           NULL::jsonb AS refers, false AS partitions
    FROM pg_catalog.pg_depend AS d
    LEFT JOIN pg_catalog.pg_trigger AS g
        ON d.classid = 'pg_catalog.pg_trigger'::regclass AND g.oid = d.objid
    LEFT JOIN pg_catalog.pg_attrdef AS e
        ON d.classid = 'pg_catalog.pg_attrdef'::regclass AND e.oid = d.objid
    WHERE d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = t.relid
      AND d.refobjsubid = a.attnum
      AND (d.classid IN ('pg_catalog.pg_rewrite'::regclass, 'pg_catalog.pg_trigger'::regclass,
                         'pg_catalog.pg_policy'::regclass, 'pg_catalog.pg_attrdef'::regclass,
                         'pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_publication_rel'::regclass)
           OR d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = t.relid AND d.objsubid > 0)
      AND g.tgisinternal IS NOT TRUE AND e.adnum IS DISTINCT FROM a.attnum
    UNION ALL
    SELECT NULL, NULL, true
    FROM pg_catalog.pg_partitioned_table AS k
    WHERE k.partrelid = t.relid AND EXISTS (
        SELECT FROM pg_catalog.pg_depend AS d
        WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = t.relid
          AND d.objsubid = a.attnum AND d.refclassid = d.classid AND d.refobjid = t.relid
          AND d.refobjsubid = 0 AND d.deptype = 'i'
    )
    UNION ALL
    SELECT NULL, jsonb_build_array(m.nspname, r.relname, f.attname), false
    FROM pg_catalog.pg_constraint AS o
    JOIN pg_catalog.pg_class AS r ON r.oid = o.conrelid AND NOT r.relispartition
    JOIN pg_catalog.pg_namespace AS m ON m.oid = r.relnamespace
    JOIN pg_catalog.pg_attribute AS f
        ON f.attrelid = r.oid AND f.attnum = o.conkey[array_position(o.confkey, a.attnum)]
    JOIN holds AS h ON h.type = f.atttypid
    WHERE o.contype = 'f' AND o.confrelid = t.relid AND a.attnum = ANY (o.confkey)
) AS u
GROUP BY w.schema, w.table, w.column
