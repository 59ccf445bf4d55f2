/*
help = "Sessions of clients, by state"
interval = "10s"

[gauges]
clients = { help = "sessions of clients" }
active = { help = "of these, running a statement" }
idle = { help = "of them idle" }
idle_in_transaction = { help = "of these, idle in a transaction" }
waiting = { help = "of them waiting for a lock" }
oldest_transaction = { type = "float", unit = "s", help = "age of the oldest transaction" }
oldest_snapshot = { help = "transactions begun since the oldest snapshot or open transaction" }
maximum = { help = "max_connections" }
ordinary = { help = "of these, what ordinary roles may open" }
*/
-- What sessions of other roles do is hidden from a role without pg_read_all_stats: it is missing.
SELECT clients,
       CASE WHEN seen THEN active END AS active,
       CASE WHEN seen THEN idle END AS idle,
       CASE WHEN seen THEN idle_in_transaction END AS idle_in_transaction,
       CASE WHEN seen THEN waiting END AS waiting,
       CASE WHEN seen THEN oldest_transaction END AS oldest_transaction,
       CASE WHEN seen THEN oldest_snapshot END AS oldest_snapshot,
       maximum,
       maximum - (SELECT coalesce(sum(nullif(current_setting(name, true), '')::bigint), 0)
                  FROM unnest(ARRAY['superuser_reserved_connections', 'reserved_connections',
                                    'rds.rds_superuser_reserved_connections',
                                    'rds.rds_reserved_connections']) AS name)::bigint AS ordinary
FROM (SELECT pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE') AS seen,
             count(*) AS clients,
             count(*) FILTER (WHERE state = 'active') AS active,
             count(*) FILTER (WHERE state = 'idle') AS idle,
             count(*) FILTER (WHERE state LIKE 'idle in transaction%') AS idle_in_transaction,
             count(*) FILTER (WHERE wait_event_type = 'Lock') AS waiting,
             extract(epoch FROM clock_timestamp() - min(xact_start))::float8 AS oldest_transaction,
             max(greatest(age(backend_xmin), age(backend_xid)))::bigint AS oldest_snapshot,
             current_setting('max_connections')::bigint AS maximum
      FROM pg_catalog.pg_stat_activity
      WHERE pid <> pg_backend_pid()
        AND (backend_type = 'client backend'
             OR backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL)) AS counted
