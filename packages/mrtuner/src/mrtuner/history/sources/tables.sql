/*
help = "Rows, vacuums and sizes of each table of the connected database, with its TOAST table"
interval = "5min"
timeout = "10s"
per_database = true
same = ["database", "relation"]
export_largest = ["pages", "index_pages", "toast_pages"]

[keys]
database = { help = "the database" }
schema = { help = "the schema" }
name = { help = "the table" }
relation = { type = "integer", label = false, help = "its OID: a table of the same name that is made anew is another" }

[counters]
seq_scans = { help = "sequential scans" }
seq_rows = { help = "rows read by sequential scans" }
index_scans = { help = "index scans" }
inserted = { help = "rows inserted" }
updated = { help = "rows updated" }
hot_updated = { help = "rows updated without a new index entry" }
deleted = { help = "rows deleted" }
vacuums = { help = "vacuums by command" }
autovacuums = { help = "vacuums by autovacuum" }
analyzes = { help = "analyzes by command and autovacuum" }
toast_inserted = { help = "chunks inserted into its TOAST table" }
toast_deleted = { help = "chunks deleted from its TOAST table" }

[gauges]
live = { help = "live rows, estimated" }
dead = { help = "dead rows, estimated" }
pages = { unit = "blocks", help = "pages at the last vacuum or analyze" }
index_pages = { unit = "blocks", help = "pages of its indexes at the last vacuum" }
toast_pages = { unit = "blocks", help = "pages of its TOAST table" }
toast_dead = { help = "dead chunks of its TOAST table" }
age = { help = "transactions since relfrozenxid" }
last_vacuum = { unit = "timestamp", help = "when it was last vacuumed, by whom ever; seconds since 1970" }
last_analyze = { unit = "timestamp", help = "when it was last analyzed, by whom ever; seconds since 1970" }
*/
-- No lock on any table: sizes are relpages, counters come from the functions below the views.
-- Each change of a table's age alone would make a row: it is rounded to 10 million.
SELECT current_database() AS database, n.nspname AS schema, c.relname AS name,
       c.oid::bigint AS relation,
       pg_stat_get_numscans(c.oid) AS seq_scans, pg_stat_get_tuples_returned(c.oid) AS seq_rows,
       coalesce(i.scans, 0)::bigint AS index_scans,
       pg_stat_get_tuples_inserted(c.oid) AS inserted,
       pg_stat_get_tuples_updated(c.oid) AS updated,
       pg_stat_get_tuples_hot_updated(c.oid) AS hot_updated,
       pg_stat_get_tuples_deleted(c.oid) AS deleted,
       pg_stat_get_vacuum_count(c.oid) AS vacuums,
       pg_stat_get_autovacuum_count(c.oid) AS autovacuums,
       pg_stat_get_analyze_count(c.oid) + pg_stat_get_autoanalyze_count(c.oid) AS analyzes,
       pg_stat_get_tuples_inserted(t.oid) AS toast_inserted,
       pg_stat_get_tuples_deleted(t.oid) AS toast_deleted,
       pg_stat_get_live_tuples(c.oid) AS live, pg_stat_get_dead_tuples(c.oid) AS dead,
       c.relpages::bigint AS pages, coalesce(i.pages, 0)::bigint AS index_pages,
       t.relpages::bigint AS toast_pages, pg_stat_get_dead_tuples(t.oid) AS toast_dead,
       greatest(age(c.relfrozenxid), age(t.relfrozenxid))::bigint / 10000000 * 10000000 AS age,
       extract(epoch FROM greatest(pg_stat_get_last_vacuum_time(c.oid),
                                   pg_stat_get_last_autovacuum_time(c.oid)))::bigint AS last_vacuum,
       extract(epoch FROM greatest(pg_stat_get_last_analyze_time(c.oid),
                                   pg_stat_get_last_autoanalyze_time(c.oid)))::bigint
           AS last_analyze
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_class AS t ON t.oid = c.reltoastrelid
LEFT JOIN (
    SELECT x.indrelid, sum(k.relpages) AS pages, sum(pg_stat_get_numscans(k.oid)) AS scans
    FROM pg_catalog.pg_index AS x JOIN pg_catalog.pg_class AS k ON k.oid = x.indexrelid
    GROUP BY x.indrelid
) AS i ON i.indrelid = c.oid
WHERE c.relkind IN ('r', 'm') AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema')
