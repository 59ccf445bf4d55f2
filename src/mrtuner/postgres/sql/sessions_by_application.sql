-- Sessions of clients by application. To a lesser role the state and the address of others' sessions
-- are NULL, and so is backend_type.
SELECT coalesce(application_name, '') AS application, usename AS role, datname AS database,
       count(*) AS sessions,
       count(*) FILTER (WHERE state IN ('active', 'fastpath function call')) AS active,
       count(*) FILTER (WHERE state LIKE 'idle in transaction%') AS in_transaction,
       count(DISTINCT client_addr) AS addresses,
       count(*) FILTER (WHERE backend_type IS NULL) AS hidden
FROM pg_catalog.pg_stat_activity
WHERE pid <> pg_backend_pid()
  AND (backend_type = 'client backend'
       OR backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL)
GROUP BY 1, 2, 3
ORDER BY sessions DESC, application, role, database
