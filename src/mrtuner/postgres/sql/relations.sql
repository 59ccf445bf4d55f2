-- Pick first, measure then: a size needs a lock on the table.
SELECT current_database() AS database, schemaname AS schema, relname AS name,
       coalesce(pg_total_relation_size(relid), 0) AS size,
       live_rows, dead_rows, written, vacuums, analyzes
FROM (
    SELECT relid, schemaname, relname, n_live_tup AS live_rows, n_dead_tup AS dead_rows,
           n_tup_ins + n_tup_upd + n_tup_del AS written,
           vacuum_count + autovacuum_count AS vacuums,
           analyze_count + autoanalyze_count AS analyzes
    FROM pg_catalog.pg_stat_user_tables
    ORDER BY written DESC, n_live_tup DESC, relid
    LIMIT 20
) AS busiest
ORDER BY written DESC, live_rows DESC, relid
