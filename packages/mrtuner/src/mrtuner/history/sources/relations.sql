/*
help = "Tables and indexes of the connected database, when they are first seen and when they change"
interval = "1min"
timeout = "10s"
keep = "1826d"
per_database = true

[keys]
database = { help = "the database" }
schema = { help = "the schema" }
name = { help = "the table or index" }

[texts]
kind = { help = "table or index" }
table_name = { help = "the table that it is, or that it is for" }
relation = { type = "integer", help = "its OID" }
file = { type = "integer", help = "its relfilenode: another one once it was rewritten; 0: it has none" }
valid = { type = "boolean", help = "false: an index that no query uses, since its build failed; null: a table" }
empty = { type = "boolean", help = "whether it had no page at the last vacuum or analyze, or none ran" }
*/
-- No lock on any of them. An index that is being built is not yet there.
SELECT current_database() AS database, n.nspname AS schema, c.relname AS name,
       CASE WHEN x.indexrelid IS NULL THEN 'table' ELSE 'index' END AS kind,
       coalesce(t.relname, c.relname) AS table_name, c.oid::bigint AS relation,
       c.relfilenode::bigint AS file, x.indisvalid AS valid, c.relpages = 0 AS empty
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_index AS x ON x.indexrelid = c.oid
LEFT JOIN pg_catalog.pg_class AS t ON t.oid = x.indrelid
WHERE c.relkind IN ('r', 'm', 'p', 'i', 'I') AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema')
  AND (x.indisvalid IS NOT FALSE
       OR NOT EXISTS (SELECT FROM pg_catalog.pg_stat_progress_create_index AS b
                      WHERE b.index_relid = c.oid))
