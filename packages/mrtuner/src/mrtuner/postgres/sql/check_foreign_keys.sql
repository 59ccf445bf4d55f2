-- Foreign keys of tables of 10 MB or more without an index that begins with one of their columns, whose
-- parents have lost rows: each such row has read the whole table, and so it was read as often at least.
-- Of the partitions of a table, the one that was read most stands for all.
WITH key AS (
    SELECT n.nspname AS schema, c.relname AS name, k.conname AS key, pn.nspname AS parent_schema,
           p.relname AS parent, s.deleted, s.scans, s.read,
           c.relpages::bigint * current_setting('block_size')::int AS size, c.relispartition AS partition,
           coalesce(pg_partition_root(c.oid)::oid, c.oid) AS root, p.oid AS referenced,
           (SELECT array_agg(a.attname::text ORDER BY u.place)
            FROM unnest(k.conkey) WITH ORDINALITY AS u (number, place)
            JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = u.number) AS columns
    FROM pg_catalog.pg_constraint AS k
    JOIN pg_catalog.pg_class AS c ON c.oid = k.conrelid AND c.relkind = 'r'
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_class AS p ON p.oid = k.confrelid AND p.relkind = 'r'
    JOIN pg_catalog.pg_namespace AS pn ON pn.oid = p.relnamespace
    CROSS JOIN LATERAL (
        SELECT pg_stat_get_tuples_deleted(p.oid) AS deleted, pg_stat_get_numscans(c.oid) AS scans,
               pg_stat_get_tuples_returned(c.oid) AS read
    ) AS s
    WHERE k.contype = 'f'
      AND k.conenforced -- since 18
      AND c.relpages::bigint * current_setting('block_size')::int >= 10485760
      AND s.deleted >= 100 AND s.scans >= s.deleted
      AND NOT EXISTS (
          SELECT FROM pg_catalog.pg_index AS i
          WHERE i.indrelid = c.oid AND i.indisvalid AND i.indkey[0] = ANY (k.conkey)
            -- Of a part of the rows, only if that is where it is not null: a NULLTEST of it alone.
            AND (i.indpred IS NULL
                 OR i.indpred::text ~ ('^{NULLTEST :arg {VAR :varno \d+ :varattno ' || i.indkey[0]
                                       || ' [^{}]*} :nulltesttype 1 [^{}]*}$')))
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY root, referenced, columns ORDER BY read DESC, name) AS place
    FROM key
)
SELECT schema, name, key, parent_schema, parent, deleted, scans, read, size, partition, columns
FROM ranked
WHERE place = 1
ORDER BY read DESC, schema, name, key
LIMIT 100
