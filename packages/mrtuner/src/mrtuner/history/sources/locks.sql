/*
help = "Locks of relations, transactions and the like, by database and mode"
interval = "1min"

[keys]
database = { help = "the database; null: shared objects and transactions" }
mode = { help = "AccessShareLock, RowExclusiveLock, …" }

[gauges]
held = { help = "locks that are held" }
waiting = { help = "requests that wait" }
*/
-- Without those of the recorder's own session. pg_locks holds up lock managers for a moment only.
SELECT d.datname AS database, l.mode,
       count(*) FILTER (WHERE l.granted) AS held,
       count(*) FILTER (WHERE NOT l.granted) AS waiting
FROM pg_catalog.pg_locks AS l LEFT JOIN pg_catalog.pg_database AS d ON d.oid = l.database
WHERE l.pid IS DISTINCT FROM pg_backend_pid()
GROUP BY 1, 2
