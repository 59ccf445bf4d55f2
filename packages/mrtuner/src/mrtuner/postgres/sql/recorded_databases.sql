-- Templates and databases that admit nobody have nothing that changes.
SELECT datname::text AS name FROM pg_catalog.pg_database
WHERE datallowconn AND NOT datistemplate ORDER BY datname
