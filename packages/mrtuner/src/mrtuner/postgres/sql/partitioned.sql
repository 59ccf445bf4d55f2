-- A query of a partitioned table locks each partition and each of their indexes, if none is pruned.
SELECT n.nspname AS schema, c.relname AS name,
       (SELECT count(*) + coalesce(sum((SELECT count(*) FROM pg_catalog.pg_index AS i
                                        WHERE i.indrelid = t.relid)), 0)
        FROM pg_catalog.pg_partition_tree(c.oid) AS t)::bigint AS locks
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'p' AND NOT c.relispartition
ORDER BY locks DESC, schema, name
LIMIT 1
