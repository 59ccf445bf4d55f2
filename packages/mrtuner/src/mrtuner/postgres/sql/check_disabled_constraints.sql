-- Foreign keys, and unique constraints checked at the end, whose triggers are disabled on a table: it
-- is the server that has made these triggers.
SELECT n.nspname AS schema, c.relname AS name,
       array_agg(DISTINCT k.conname::text ORDER BY k.conname::text) AS constraints,
       array_agg(t.tgname::text ORDER BY t.tgname) AS triggers
FROM pg_catalog.pg_trigger AS t
JOIN pg_catalog.pg_class AS c ON c.oid = t.tgrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_constraint AS k ON k.oid = t.tgconstraint
WHERE t.tgisinternal AND t.tgenabled = 'D' AND c.relpersistence <> 't'
GROUP BY n.nspname, c.relname
ORDER BY n.nspname, c.relname
LIMIT 100
