/*
help = "Use and state of each index of the connected database"
interval = "15min"
timeout = "10s"
per_database = true
same = ["database", "schema", "name"]
export_largest = ["pages"]

[keys]
database = { help = "the database" }
schema = { help = "the schema" }
name = { help = "the index" }
relation = { type = "integer", label = false, help = "its OID" }

[texts]
table_name = { help = "the table that it is for" }
unique = { type = "boolean", help = "whether it enforces uniqueness, so that it is of use without scans" }

[counters]
scans = { help = "index scans" }
entries_read = { help = "entries that they returned" }

[gauges]
pages = { unit = "blocks", help = "pages at the last vacuum or analyze" }
invalid = { help = "1: a failed build or rebuild left it, it costs writes and serves no query; else 0" }
*/
-- REINDEX CONCURRENTLY copies the counters to another index of the same name.
-- No lock on any index: sizes are relpages, counters come from the functions below the views. One
-- that is being built is not yet valid either.
SELECT current_database() AS database, n.nspname AS schema, k.relname AS name,
       k.oid::bigint AS relation, t.relname AS table_name, x.indisunique AS "unique",
       pg_stat_get_numscans(k.oid) AS scans, pg_stat_get_tuples_returned(k.oid) AS entries_read,
       k.relpages::bigint AS pages,
       CASE WHEN x.indisvalid OR EXISTS (SELECT FROM pg_catalog.pg_stat_progress_create_index AS b
                                         WHERE b.index_relid = k.oid)
            THEN 0 ELSE 1 END AS invalid
FROM pg_catalog.pg_index AS x
JOIN pg_catalog.pg_class AS k ON k.oid = x.indexrelid
JOIN pg_catalog.pg_class AS t ON t.oid = x.indrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = k.relnamespace
WHERE k.relkind = 'i' AND t.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema')
