-- Collations that columns of this database use, and whose library has changed since.
SELECT n.nspname AS schema, c.collname AS name, c.collversion AS recorded,
       pg_collation_actual_version(c.oid) AS actual
FROM pg_catalog.pg_collation AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.collnamespace
WHERE c.collversion IS NOT NULL
  AND c.oid IN (SELECT attcollation FROM pg_catalog.pg_attribute WHERE attnum > 0)
  AND c.collversion IS DISTINCT FROM pg_collation_actual_version(c.oid)
ORDER BY 1, 2
LIMIT 100
