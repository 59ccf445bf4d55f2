-- Sequences whose next number is in use, as after a restore of the rows alone; or of which that cannot be
-- seen. Only what is sure, and no table is read: the column is a key, it has more rows than the sequence
-- has given numbers, and half of the numbers around the next one are taken, as the last ANALYZE saw it,
-- with few changes since. A subscription fills tables without their sequences.
WITH RECURSIVE number AS MATERIALIZED (
    SELECT t.oid FROM pg_catalog.pg_type AS t
    WHERE t.oid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)
    UNION ALL
    SELECT d.oid
    FROM number AS h JOIN pg_catalog.pg_type AS d ON d.typbasetype = h.oid AND d.typtype = 'd'
), filled AS MATERIALIZED (
    SELECT d.objid AS sequence, d.refobjid AS relation, d.refobjsubid AS number
    FROM pg_catalog.pg_depend AS d
    WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.refobjsubid > 0 AND d.deptype = 'i'
    UNION
    SELECT d.refobjid, v.adrelid, v.adnum
    FROM pg_catalog.pg_depend AS d
    JOIN pg_catalog.pg_attrdef AS v ON v.oid = d.objid
    WHERE d.refclassid = 'pg_catalog.pg_class'::regclass
      AND d.classid = 'pg_catalog.pg_attrdef'::regclass
), key AS MATERIALIZED (
    SELECT q.seqrelid, q.seqincrement AS step, least(q.seqstart, greatest(q.seqmin, 1)) AS first,
           sn.nspname AS schema, s.relname AS name, n.nspname AS table_schema, t.relname AS table,
           a.attname AS column, t.reltuples AS rows,
           has_sequence_privilege(s.oid, 'USAGE') OR has_sequence_privilege(s.oid, 'SELECT')
               AS counts,
           has_column_privilege(t.oid, a.attnum, 'SELECT')
               AND NOT (t.relrowsecurity AND row_security_active(t.oid)) AS sees
    FROM pg_catalog.pg_sequence AS q
    JOIN filled AS f ON f.sequence = q.seqrelid
    JOIN pg_catalog.pg_class AS s ON s.oid = q.seqrelid AND s.relpersistence <> 't'
    JOIN pg_catalog.pg_namespace AS sn ON sn.oid = s.relnamespace
    JOIN pg_catalog.pg_class AS t ON t.oid = f.relation AND t.relkind = 'r'
    JOIN pg_catalog.pg_namespace AS n ON n.oid = t.relnamespace
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = t.oid AND a.attnum = f.number
    JOIN number AS b ON b.oid = a.atttypid
    WHERE q.seqincrement BETWEEN 1 AND 1000000 AND NOT q.seqcycle AND t.reltuples > 1
      AND coalesce(pg_stat_get_last_analyze_time(t.oid), pg_stat_get_last_autoanalyze_time(t.oid))
          IS NOT NULL
      AND pg_stat_get_mod_since_analyze(t.oid) <= 0.1 * t.reltuples
      AND EXISTS (SELECT FROM pg_catalog.pg_index AS i
                  WHERE i.indrelid = t.oid AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1
                    AND i.indkey[0] = a.attnum AND i.indpred IS NULL)
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_subscription_rel AS r WHERE r.srrelid = t.oid)
), used AS (
    SELECT k.*, CASE WHEN k.counts THEN pg_sequence_last_value(k.seqrelid) END AS last FROM key AS k
), more AS MATERIALIZED (
    SELECT * FROM used
    WHERE NOT counts
       OR rows > 1.05 * ((last::float8 - first) / step + 1)
          AND last < 9e18 -- else the sums below may overflow
)
SELECT m.schema, m.name, m.table_schema, m.table, m.column, m.counts AND m.sees AS readable,
       m.last + m.step AS next, h.highest
FROM more AS m
LEFT JOIN LATERAL (
    SELECT b.bounds[array_upper(b.bounds, 1)] AS highest,
           width_bucket(m.last + m.step, b.bounds) AS place, b.bounds,
           m.rows / (array_length(b.bounds, 1) - 1) AS each
    FROM pg_catalog.pg_stats AS s
    CROSS JOIN LATERAL (SELECT s.histogram_bounds::text::bigint[] AS bounds) AS b
    WHERE m.counts AND m.sees AND s.schemaname = m.table_schema AND s.tablename = m.table
      AND s.attname = m.column
    OFFSET 0
) AS h ON true
WHERE NOT (m.counts AND m.sees)
   OR h.place BETWEEN 1 AND array_length(h.bounds, 1) - 1
      AND h.bounds[h.place + 1]::float8 - h.bounds[h.place] <= 2 * h.each * m.step
ORDER BY m.schema, m.name
LIMIT 100
