-- No lock on any table: sizes are relpages, counters come from the functions below the views.
-- The view pg_stat_all_tables joins every index, too slow with 10,000 partitions.
-- A table is as old as its attribute ctid: no ALTER TABLE, TRUNCATE or VACUUM writes that row again.
SELECT c.oid, n.nspname AS schema, c.relname AS name, p.inhparent::regclass::text AS parent,
       c.relfilenode::bigint AS relfilenode, c.relpages AS pages, c.relallvisible AS visible_pages,
       NULL::int AS frozen_pages, -- before 18
       c.relallfrozen AS frozen_pages, -- since 18
       greatest(c.reltuples, 0)::float8 AS rows_estimated,
       coalesce(i.pages, 0)::bigint AS index_pages, coalesce(i.indexes, 0) AS indexes,
       coalesce(c.reloptions, '{}') AS options,
       age(c.relfrozenxid) AS age, mxid_age(c.relminmxid) AS multixact_age, age(a.xmin) AS made,
       pg_stat_get_live_tuples(c.oid) AS live, pg_stat_get_dead_tuples(c.oid) AS dead,
       pg_stat_get_tuples_inserted(c.oid) AS inserted,
       pg_stat_get_tuples_updated(c.oid) AS updated,
       pg_stat_get_tuples_hot_updated(c.oid) AS hot_updated,
       pg_stat_get_tuples_deleted(c.oid) AS deleted,
       NULL::bigint AS newpage_updated, -- before 16
       pg_stat_get_tuples_newpage_updated(c.oid) AS newpage_updated, -- since 16
       pg_stat_get_autovacuum_count(c.oid) + pg_stat_get_vacuum_count(c.oid) AS vacuums,
       NULL::float8 AS vacuum_seconds, -- before 18
       (pg_stat_get_total_vacuum_time(c.oid) -- since 18
        + pg_stat_get_total_autovacuum_time(c.oid)) / 1000 AS vacuum_seconds, -- since 18
       t.relname AS toast_name, t.relpages AS toast_pages,
       coalesce(t.reloptions, '{}') AS toast_options,
       pg_stat_get_live_tuples(t.oid) AS toast_live, pg_stat_get_dead_tuples(t.oid) AS toast_dead,
       pg_stat_get_tuples_inserted(t.oid) AS toast_inserted,
       pg_stat_get_tuples_deleted(t.oid) AS toast_deleted,
       age(t.relfrozenxid) AS toast_age
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = -1
LEFT JOIN pg_catalog.pg_inherits AS p ON p.inhrelid = c.oid AND c.relispartition
LEFT JOIN pg_catalog.pg_class AS t ON t.oid = c.reltoastrelid
LEFT JOIN (
    SELECT x.indrelid, sum(k.relpages) AS pages, count(*)::int AS indexes
    FROM pg_catalog.pg_index AS x JOIN pg_catalog.pg_class AS k ON k.oid = x.indexrelid
    GROUP BY x.indrelid
) AS i ON i.indrelid = c.oid
WHERE c.relkind IN ('r', 'm') AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema')
ORDER BY c.oid
