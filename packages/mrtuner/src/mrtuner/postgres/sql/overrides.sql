-- ALTER ROLE ALL has role 0, ALTER ROLE in every database has database 0.
SELECT r.rolname AS role, d.datname AS database,
       split_part(line, '=', 1) AS name,
       substr(line, strpos(line, '=') + 1) AS value
FROM pg_catalog.pg_db_role_setting AS s
LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = s.setrole
LEFT JOIN pg_catalog.pg_database AS d ON d.oid = s.setdatabase,
LATERAL unnest(s.setconfig) AS line
ORDER BY role, database, name
