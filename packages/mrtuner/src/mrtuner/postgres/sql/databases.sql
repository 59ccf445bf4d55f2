-- pg_database_size() fails for a database that one may not connect to: give NULL instead.
SELECT datname AS name,
       CASE WHEN has_database_privilege(oid, 'CONNECT') OR pg_has_role('pg_read_all_stats', 'USAGE')
            THEN pg_database_size(oid)
       END AS size
FROM pg_catalog.pg_database
ORDER BY datname
