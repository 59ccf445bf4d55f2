-- A standby with hot_standby_feedback and no slot shows its horizon here.
SELECT application_name AS application, pid, age(backend_xmin) AS age
FROM pg_catalog.pg_stat_replication
WHERE backend_xmin IS NOT NULL
ORDER BY age DESC, pid
