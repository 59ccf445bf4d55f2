/*
help = "Subscriptions of logical replication"
interval = "1min"
reset = "stats_reset"

[keys]
name = { help = "the subscription" }

[gauges]
workers = { help = "workers that run for it; 0: it is disabled or fails" }
silent = { type = "float", unit = "s", help = "time since the last message of the publisher" }

[counters]
apply_errors = { help = "errors while changes were applied; 15 and later" }
sync_errors = { help = "errors while tables were copied; 15 and later" }
*/
SELECT s.subname AS name, count(s.pid) AS workers,
       extract(epoch FROM clock_timestamp() - max(s.last_msg_receipt_time))::float8 AS silent,
       NULL::text AS stats_reset, NULL::bigint AS apply_errors, NULL::bigint AS sync_errors -- before 15
       max(e.stats_reset)::text AS stats_reset, -- since 15
       max(e.apply_error_count) AS apply_errors, -- since 15
       max(e.sync_error_count) AS sync_errors -- since 15, before 19
       max(e.sync_table_error_count + e.sync_seq_error_count) AS sync_errors -- since 19
FROM pg_catalog.pg_stat_subscription AS s
LEFT JOIN pg_catalog.pg_stat_subscription_stats AS e ON e.subid = s.subid -- since 15
GROUP BY s.subname
