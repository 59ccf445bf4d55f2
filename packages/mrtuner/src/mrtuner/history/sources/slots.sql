/*
help = "Replication slots and the WAL that they keep"
interval = "1min"

[keys]
name = { help = "the slot" }

[texts]
kind = { help = "physical or logical" }
active = { type = "boolean", help = "whether it is in use" }
status = { help = "reserved, extended, unreserved or lost" }

[gauges]
retained = { unit = "bytes", help = "WAL kept for it" }
safe = { unit = "bytes", help = "WAL until it is lost, with max_slot_wal_keep_size" }
used = { type = "float", unit = "share", help = "kept, of what may be kept for it before it is lost" }
lost = { help = "1: WAL that it needs is gone" }
xmin_age = { help = "transactions since the oldest whose rows it keeps" }
*/
SELECT slot_name AS name, slot_type AS kind, active, wal_status AS status,
       CASE WHEN restart_lsn IS NOT NULL -- else greatest would return 0
            THEN greatest(here.lsn - restart_lsn, 0)::bigint END AS retained, safe_wal_size AS safe,
       CASE WHEN safe_wal_size IS NOT NULL
            THEN round(greatest(here.lsn - restart_lsn, 0)
                       / greatest(here.lsn - restart_lsn + safe_wal_size, 1), 3)::float8 END AS used,
       (wal_status = 'lost')::int AS lost,
       CASE WHEN wal_status IS DISTINCT FROM 'lost' -- since 13.10, 14.7 and 15.2 it keeps nothing
              OR current_setting('server_version_num')::int < 130010
              OR current_setting('server_version_num')::int BETWEEN 140000 AND 140006
              OR current_setting('server_version_num')::int BETWEEN 150000 AND 150001
            THEN greatest(age(xmin), age(catalog_xmin))::bigint END AS xmin_age
FROM pg_catalog.pg_replication_slots,
     (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
             ELSE pg_current_wal_lsn() END AS lsn) AS here
