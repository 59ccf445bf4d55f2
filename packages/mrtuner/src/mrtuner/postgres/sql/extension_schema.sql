-- For the rest of the transaction the extension's functions are found, wherever it is installed.
SELECT set_config('search_path', quote_ident(n.nspname), true)
FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace
WHERE e.extname = 'pg_stat_statements'
