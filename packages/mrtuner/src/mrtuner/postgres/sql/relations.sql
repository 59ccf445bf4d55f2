-- Pick first, measure then: a size needs a lock on the table and on its indexes. Where another session
-- has locked or wants one against that, it is as the last VACUUM or ANALYZE left it.
WITH locked AS MATERIALIZED (
    SELECT l.relation
    FROM pg_catalog.pg_locks AS l
    JOIN pg_catalog.pg_database AS d ON d.oid = l.database
    WHERE l.mode = 'AccessExclusiveLock' AND l.relation IS NOT NULL
      AND d.datname = current_database()
)
SELECT current_database() AS database, schemaname AS schema, b.relname AS name,
       coalesce(CASE WHEN EXISTS (
           SELECT FROM locked AS l
           WHERE l.relation IN (c.oid, c.reltoastrelid)
              OR l.relation IN (SELECT i.indexrelid FROM pg_catalog.pg_index AS i
                                WHERE i.indrelid IN (c.oid, c.reltoastrelid))
       ) THEN c.relpages::bigint * current_setting('block_size')::int
         ELSE pg_total_relation_size(relid) END, 0) AS size,
       live_rows, dead_rows, written,
       greatest(c.reltuples, 0)::bigint AS rows, coalesce(c.reloptions, '{}') AS options,
       changed, updated, hot_updated, newpage_updated
FROM (
    SELECT relid, schemaname, relname, n_live_tup AS live_rows, n_dead_tup AS dead_rows,
           n_tup_ins + n_tup_upd + n_tup_del AS written,
           n_tup_upd + n_tup_del AS changed, n_tup_upd AS updated, n_tup_hot_upd AS hot_updated,
           NULL::bigint AS newpage_updated -- before 16
           n_tup_newpage_upd AS newpage_updated -- since 16
    FROM pg_catalog.pg_stat_user_tables
    ORDER BY written DESC, n_live_tup DESC, relid
    LIMIT 20
) AS b
JOIN pg_catalog.pg_class AS c ON c.oid = b.relid
ORDER BY written DESC, live_rows DESC, relid
