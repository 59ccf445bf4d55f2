/*
help = "Sequences of the connected database, and how much of their numbers is used up"
interval = "1h"
timeout = "30s"
per_database = true
export_largest = ["used"]

[keys]
database = { help = "the database" }
schema = { help = "the schema" }
name = { help = "the sequence" }

[texts]
used_by = { help = "the column that takes its numbers" }

[gauges]
used = { type = "float", unit = "share", help = "used up; null: none yet, or hidden from the role" }
maximum = { help = "the highest number that it gives and the column takes" }
*/
-- Without the last number itself: each that differs would make a row. A column may be narrower than
-- its sequence; one that begins again at its end never comes to it. What pg_sequences shows to whom
-- is the same, but by that view's names it could not be joined without rights on the schema.
SELECT current_database() AS database, n.nspname AS schema, c.relname AS name,
       tn.nspname || '.' || t.relname || '.' || a.attname AS used_by,
       round(CASE WHEN has_sequence_privilege(c.oid, 'SELECT, USAGE')
                       AND NOT (c.relpersistence = 'u' AND pg_is_in_recovery())
                  THEN pg_sequence_last_value(c.oid) END / m.maximum::numeric, 3)::float8 AS used,
       m.maximum
FROM pg_catalog.pg_sequence AS s
JOIN pg_catalog.pg_class AS c ON c.oid = s.seqrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_depend AS d
  ON d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i')
     AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjsubid > 0
LEFT JOIN pg_catalog.pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
LEFT JOIN pg_catalog.pg_class AS t ON t.oid = d.refobjid
LEFT JOIN pg_catalog.pg_namespace AS tn ON tn.oid = t.relnamespace
CROSS JOIN LATERAL (
    SELECT least(s.seqmax, CASE a.atttypid WHEN 'int2'::regtype THEN 32767
                                           WHEN 'int4'::regtype THEN 2147483647 END) AS maximum
) AS m
WHERE s.seqincrement > 0 AND NOT s.seqcycle AND c.relpersistence <> 't' AND m.maximum > 0
