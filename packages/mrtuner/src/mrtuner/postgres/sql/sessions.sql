-- Sessions of clients now, and those at work; others' state is NULL to a lesser role.
SELECT count(*) AS sessions, count(*) FILTER (WHERE state = 'active') AS active
FROM pg_catalog.pg_stat_activity
WHERE pid <> pg_backend_pid()
  AND (backend_type = 'client backend'
       OR backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL)
