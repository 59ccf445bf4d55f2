/*
help = "Sessions of clients by database, role and state"
interval = "1min"
grant = "pg_read_all_stats"

[keys]
database = { help = "the database" }
role = { help = "the role" }
state = { help = "active, idle, idle in transaction, …" }

[gauges]
sessions = { help = "how many there are" }
*/
SELECT datname AS database, usename AS role, state, count(*) AS sessions
FROM pg_catalog.pg_stat_activity
WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
GROUP BY 1, 2, 3
