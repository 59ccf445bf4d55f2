-- Extensions with an update that the server's files bring: pg_upgrade does not run it.
SELECT e.extname AS name, e.extversion AS installed, a.default_version AS available
FROM pg_catalog.pg_extension AS e
JOIN pg_catalog.pg_available_extensions AS a ON a.name = e.extname
WHERE a.default_version <> e.extversion
  AND EXISTS (SELECT FROM pg_catalog.pg_extension_update_paths(e.extname) AS p
              WHERE p.source = e.extversion AND p.target = a.default_version AND p.path IS NOT NULL)
ORDER BY e.extname
