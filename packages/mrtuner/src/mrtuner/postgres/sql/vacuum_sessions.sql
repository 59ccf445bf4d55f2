-- Whose snapshot or transaction ID may keep dead rows; `here`: those of this database, not of shared
-- catalogs alone. Not a lazy VACUUM's own, nor what a walsender decodes: ComputeXidHorizons
-- (procarray.c) leaves these out. A parallel worker has its leader's snapshot. A walsender without
-- a database is a standby's: vacuum_feedback. A standby holds back its primary by what it reports,
-- and that is of all databases.
SELECT a.pid, a.usename AS role, a.application_name AS application, a.state, a.backend_type,
       (a.datid = d.oid OR pg_is_in_recovery()) IS TRUE AS here,
       CASE WHEN a.datid <> d.oid THEN a.datname END AS elsewhere,
       extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds,
       a.backend_xmin::text AS xmin, a.backend_xid::text AS xid,
       greatest(age(a.backend_xmin), age(a.backend_xid)) AS age, age(a.backend_xid) AS xid_age,
       concat(a.pid, ' ', a.backend_start, ' ', a.xact_start) AS key
FROM pg_catalog.pg_stat_activity AS a
JOIN pg_catalog.pg_database AS d ON d.datname = current_database()
WHERE (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
  AND a.pid <> pg_backend_pid() AND a.backend_type <> 'parallel worker'
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_progress_vacuum AS v WHERE v.pid = a.pid)
  AND (a.backend_type <> 'walsender' OR a.datid IS NOT NULL AND NOT EXISTS (
      SELECT FROM pg_catalog.pg_replication_slots AS s WHERE s.active_pid = a.pid))
  AND (NOT pg_is_in_recovery() OR current_setting('hot_standby_feedback')::boolean)
ORDER BY age DESC NULLS LAST, a.pid
LIMIT 200
