-- A standby with hot_standby_feedback and no slot shows its horizon here. A walsender with a database
-- is a logical subscriber's: its snapshot is that of a session, see vacuum_sessions.
SELECT r.application_name AS application, r.pid, age(r.backend_xmin) AS age,
       concat(r.pid, ' ', r.backend_start) AS key,
       r.backend_xmin::text AS xmin, NULL AS xid
FROM pg_catalog.pg_stat_replication AS r
JOIN pg_catalog.pg_stat_activity AS a ON a.pid = r.pid AND a.datid IS NULL
WHERE r.backend_xmin IS NOT NULL
ORDER BY age DESC, r.pid
