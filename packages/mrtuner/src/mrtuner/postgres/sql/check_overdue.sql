-- How long ago VACUUM or ANALYZE last came to tables with many dead rows. How many of these the last
-- VACUUM left, at least: those that were there at an ANALYZE that came with it or before it, as each row
-- that was changed since has left one at most. Whether every worker of autovacuum is at work; to some
-- roles no worker is shown.
SELECT c.oid,
       extract(epoch FROM clock_timestamp() - greatest(
           pg_stat_get_last_vacuum_time(c.oid), pg_stat_get_last_autovacuum_time(c.oid),
           pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid)
       ))::float8 AS seconds,
       extract(epoch FROM clock_timestamp() - greatest(
           pg_stat_get_last_vacuum_time(c.oid), pg_stat_get_last_autovacuum_time(c.oid)
       ))::float8 AS vacuumed,
       CASE WHEN greatest(pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid))
                 <= greatest(pg_stat_get_last_vacuum_time(c.oid), pg_stat_get_last_autovacuum_time(c.oid))
                    + interval '10 s'
            THEN pg_stat_get_dead_tuples(c.oid) - pg_stat_get_mod_since_analyze(c.oid)
            ELSE 0 END AS survived,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'autovacuum worker')
           >= current_setting('autovacuum_max_workers')::int AS busy
FROM pg_catalog.pg_class AS c
WHERE c.relkind IN ('r', 'm') AND c.relpersistence <> 't' AND pg_stat_get_dead_tuples(c.oid) >= 50000
