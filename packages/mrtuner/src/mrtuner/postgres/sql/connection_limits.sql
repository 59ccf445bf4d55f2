-- Limits of roles that may log in, and of databases; -1 is none. As of 16,
-- pg_use_reserved_connections admits a role to connections that are reserved.
SELECT 'role' AS kind, rolname AS name, rolconnlimit AS most, rolsuper AS superuser,
       false AS reserved -- before 16
       pg_catalog.pg_has_role(oid, 'pg_use_reserved_connections', 'USAGE') AS reserved -- since 16
FROM pg_catalog.pg_roles
WHERE rolcanlogin
UNION ALL
SELECT 'database', datname, datconnlimit, false, false
FROM pg_catalog.pg_database
WHERE datallowconn
ORDER BY kind, name
