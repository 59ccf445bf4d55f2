-- Checksum failures (NULL where checksums are off), also of shared catalogs, and the version of each
-- database's collation. C and POSIX have none: they do not change. Nor is one asked of a database
-- that nobody may connect to.
SELECT coalesce(d.datname, '') AS name, s.checksum_failures,
       extract(epoch FROM s.checksum_last_failure)::float8 AS failed_at,
       d.datallowconn AND d.datcollate !~* '^(C|POSIX)($|\.)' AS sorted,
       NULL::text AS collation, NULL::text AS actual -- before 15
       CASE WHEN d.datallowconn THEN d.datcollversion END AS collation, -- since 15
       pg_database_collation_actual_version(d.oid) AS actual -- since 15
FROM pg_catalog.pg_stat_database AS s
LEFT JOIN pg_catalog.pg_database AS d ON d.oid = s.datid
ORDER BY d.datname
