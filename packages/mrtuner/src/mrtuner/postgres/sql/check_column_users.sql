-- What forbids another type for given columns of tables or of their partitions, and for the columns that
-- reference them, or those in turn, which end at the same number; and whether one is part of a partition
-- key.
WITH RECURSIVE holds AS (
    SELECT h.type::oid AS type FROM (VALUES ('int2'::regtype), ('int4')) AS h (type)
    UNION ALL
    SELECT d.oid
    FROM holds AS h JOIN pg_catalog.pg_type AS d ON d.typbasetype = h.type AND d.typtype = 'd'
), reached AS (
    SELECT w.schema, w.table, w.column, c.oid AS relid, a.attname AS name
    FROM unnest(%s::text[], %s::text[], %s::text[]) AS w (schema, "table", "column")
    JOIN pg_catalog.pg_namespace AS n ON n.nspname = w.schema
    JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = w.table
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attname = w.column
    UNION
    SELECT e.schema, e.table, e.column, r.oid, f.attname
    FROM reached AS e
    CROSS JOIN LATERAL (
        SELECT e.relid::regclass AS relid UNION SELECT p.relid FROM pg_partition_tree(e.relid) AS p
    ) AS t
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = t.relid AND a.attname = e.name
    JOIN pg_catalog.pg_constraint AS o
        ON o.contype = 'f' AND o.confrelid = t.relid AND a.attnum = ANY (o.confkey)
    JOIN pg_catalog.pg_class AS r ON r.oid = o.conrelid AND NOT r.relispartition
    JOIN pg_catalog.pg_attribute AS f
        ON f.attrelid = r.oid AND f.attnum = o.conkey[array_position(o.confkey, a.attnum)]
    JOIN holds AS h ON h.type = f.atttypid
), part AS (
    SELECT e.*, n.nspname::text AS at_schema, c.relname::text AS at_table, t.relid AS part, a.attnum,
           bool_or(EXISTS (
               SELECT FROM pg_catalog.pg_partitioned_table AS k
               JOIN pg_catalog.pg_depend AS d
                   ON d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = k.partrelid
                   AND d.refclassid = d.classid AND d.refobjid = d.objid
               WHERE k.partrelid = t.relid AND d.objsubid = a.attnum
                 AND d.refobjsubid = 0 AND d.deptype = 'i'
           )) OVER (PARTITION BY e.schema, e.table, e.column, e.relid, e.name) AS partitions
    FROM reached AS e
    JOIN pg_catalog.pg_class AS c ON c.oid = e.relid
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    CROSS JOIN LATERAL (
        SELECT e.relid::regclass AS relid UNION SELECT p.relid FROM pg_partition_tree(e.relid) AS p
    ) AS t
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = t.relid AND a.attname = e.name
)
SELECT p.schema, p.table, p.column,
       array_agg(DISTINCT u.forbids) FILTER (WHERE u.forbids IS NOT NULL) AS forbids,
       jsonb_agg(DISTINCT jsonb_build_array(p.at_schema, p.at_table, p.name, p.partitions))
           FILTER (WHERE NOT own.own) AS refers,
       bool_or(own.own AND p.partitions) AS partitions
FROM part AS p
CROSS JOIN LATERAL (
    SELECT (p.at_schema, p.at_table, p.name) = (p.schema, p.table, p.column) AS own
) AS own
LEFT JOIN LATERAL (
    -- A view's rule is told as the view, a generated column by its name: its expression depends on the
    -- column (before 15: it does itself).
    SELECT CASE
               WHEN d.classid IN ('pg_catalog.pg_class'::regclass, 'pg_catalog.pg_attrdef'::regclass)
               THEN 'generated ' || pg_describe_object(
                   'pg_catalog.pg_class'::regclass, p.part, coalesce(e.adnum, d.objsubid))
               ELSE regexp_replace(
                   pg_describe_object(d.classid, d.objid, d.objsubid), '^rule "?_RETURN"? on ', '')
           END AS forbids
    FROM pg_catalog.pg_depend AS d
    LEFT JOIN pg_catalog.pg_trigger AS g
        ON d.classid = 'pg_catalog.pg_trigger'::regclass AND g.oid = d.objid
    LEFT JOIN pg_catalog.pg_attrdef AS e
        ON d.classid = 'pg_catalog.pg_attrdef'::regclass AND e.oid = d.objid
    WHERE d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = p.part
      AND d.refobjsubid = p.attnum
      AND (d.classid IN ('pg_catalog.pg_rewrite'::regclass, 'pg_catalog.pg_trigger'::regclass,
                         'pg_catalog.pg_policy'::regclass, 'pg_catalog.pg_attrdef'::regclass,
                         'pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_publication_rel'::regclass)
           OR d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = p.part AND d.objsubid > 0)
      AND g.tgisinternal IS NOT TRUE AND e.adnum IS DISTINCT FROM p.attnum
) AS u ON true
GROUP BY p.schema, p.table, p.column
