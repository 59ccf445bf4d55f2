SELECT extname AS name
FROM pg_catalog.pg_extension
ORDER BY 1
