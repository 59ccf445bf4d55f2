SELECT name, installed_version IS NOT NULL AS installed
FROM pg_catalog.pg_available_extensions
UNION
SELECT extname, true FROM pg_catalog.pg_extension
ORDER BY 1
