-- Subscriptions of all databases; `running` is the worker that applies changes.
SELECT s.subname AS name, d.datname AS database, s.subenabled AS enabled,
       EXISTS (SELECT FROM pg_catalog.pg_stat_subscription AS w
               WHERE w.subid = s.oid AND w.relid IS NULL AND w.pid IS NOT NULL) AS running,
       NULL::bigint AS errors -- before 15
       (SELECT c.apply_error_count + c.sync_error_count -- since 15, before 19
       (SELECT c.apply_error_count + c.sync_table_error_count + c.sync_seq_error_count -- since 19
        FROM pg_catalog.pg_stat_subscription_stats AS c WHERE c.subid = s.oid) AS errors -- since 15
FROM pg_catalog.pg_subscription AS s
JOIN pg_catalog.pg_database AS d ON d.oid = s.subdbid
ORDER BY s.subname, d.datname
