-- Sessions of clients by application. To a lesser role the state and the address of others' sessions
-- are NULL, and so is backend_type. Ruby's client gives the title of its process for a name, which of
-- workers has numbers: without them they are one application (pg 1.4.5, connection.rb; Puma 5.6.5,
-- cluster/worker.rb; unicorn 6.0, http_server.rb).
SELECT regexp_replace(coalesce(application_name, ''),
                      '^(puma: cluster worker|unicorn\w* worker)( \d+: \d+|\[\d+\])', '\1')
           AS application, usename AS role, datname AS database,
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
