-- Limits of roles that may log in, and of databases; -1 is none.
SELECT 'role' AS kind, rolname AS name, rolconnlimit AS most, rolsuper AS superuser,
       false AS reserved
FROM pg_catalog.pg_roles
WHERE rolcanlogin
UNION ALL
SELECT 'database', datname, datconnlimit, false, false
FROM pg_catalog.pg_database
WHERE datallowconn
ORDER BY kind, name
