-- The xmin of a physical slot is what its standby's hot_standby_feedback reports, and so is its
-- catalog_xmin: that of logical slots there. Source: walsender.c, PhysicalReplicationSlotNewXmin.
-- A slot that lost its WAL holds nothing since 13.10, 14.7 and 15.2. Source: slot.c,
-- ReplicationSlotsComputeRequiredXmin.
-- A slot is released while its subscription copies a table, but its session has the slot's name.
SELECT slot_name AS name, slot_type AS type,
       active OR EXISTS (SELECT FROM pg_catalog.pg_stat_replication AS r
                         WHERE r.application_name = slot_name AND r.state = 'startup') AS active,
       database,
       (SELECT r.application_name FROM pg_catalog.pg_stat_replication AS r
        WHERE r.pid = active_pid) AS standby,
       age(xmin) AS age, age(catalog_xmin) AS catalog_age,
       NULL::float8 AS idle, -- before 17
       extract(epoch FROM clock_timestamp() - inactive_since)::float8 AS idle, -- since 17
       slot_name AS key, xmin::text AS xmin, NULL AS xid
FROM pg_catalog.pg_replication_slots
WHERE (xmin IS NOT NULL OR catalog_xmin IS NOT NULL)
  AND (wal_status IS DISTINCT FROM 'lost'
       OR current_setting('server_version_num')::int < 130010
       OR current_setting('server_version_num')::int BETWEEN 140000 AND 140006
       OR current_setting('server_version_num')::int BETWEEN 150000 AND 150001)
ORDER BY greatest(age(xmin), age(catalog_xmin)) DESC, slot_name
