-- Checksum failures (NULL where checksums are off), and the version of each database's collation.
SELECT d.datname AS name, s.checksum_failures,
       NULL::text AS collation, NULL::text AS actual -- before 15
       d.datcollversion AS collation, pg_database_collation_actual_version(d.oid) AS actual -- since 15
FROM pg_catalog.pg_database AS d
JOIN pg_catalog.pg_stat_database AS s ON s.datid = d.oid
WHERE d.datallowconn
ORDER BY d.datname
