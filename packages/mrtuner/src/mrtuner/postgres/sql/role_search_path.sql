-- For the rest of the transaction, names are found as the role finds them, and in the schema of an
-- extension.
SELECT pg_catalog.set_config(
    'search_path', pg_catalog.concat_ws(', ', nullif(s.reset_val, ''), e.schema), true)
FROM pg_catalog.pg_settings AS s LEFT JOIN (
    SELECT quote_ident(n.nspname) AS schema
    FROM pg_catalog.pg_extension AS x JOIN pg_catalog.pg_namespace AS n ON n.oid = x.extnamespace
    WHERE x.extname = %s
) AS e ON true
WHERE s.name = 'search_path'
