/*
help = "Size of each database"
interval = "1h"
timeout = "60s"

[keys]
database = { help = "the database" }

[gauges]
bytes = { unit = "bytes", help = "its size; null where the role may not connect to it" }
*/
SELECT datname AS database,
       CASE WHEN has_database_privilege(oid, 'CONNECT') OR pg_has_role('pg_read_all_stats', 'USAGE')
            THEN pg_database_size(oid) END AS bytes
FROM pg_catalog.pg_database
