-- Published tables whose rows a subscriber cannot tell apart: neither a valid index that is the replica
-- identity, nor FULL. Partitions have their own. The view pg_publication_tables locks each table. With
-- each comes a unique index that could be the identity, if there is one.
WITH RECURSIVE published AS (
    SELECT c.oid, p.pubupdate AS updates, p.pubdelete AS deletes
    FROM pg_catalog.pg_publication AS p
    JOIN pg_catalog.pg_class AS c ON p.puballtables AND c.relkind IN ('r', 'p')
    WHERE (p.pubupdate OR p.pubdelete)
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_publication_rel AS r -- since 19
                      WHERE r.prpubid = p.oid AND r.prexcept -- since 19
                        AND (r.prrelid = c.oid -- since 19
                             OR r.prrelid IN (SELECT pg_partition_ancestors(c.oid)))) -- since 19
    UNION ALL
    SELECT r.prrelid, p.pubupdate, p.pubdelete
    FROM pg_catalog.pg_publication AS p
    JOIN pg_catalog.pg_publication_rel AS r ON r.prpubid = p.oid
    WHERE (p.pubupdate OR p.pubdelete) AND NOT p.puballtables
    UNION ALL -- since 15
    SELECT c.oid, p.pubupdate, p.pubdelete -- since 15
    FROM pg_catalog.pg_publication AS p -- since 15
    JOIN pg_catalog.pg_publication_namespace AS m ON m.pnpubid = p.oid -- since 15
    JOIN pg_catalog.pg_class AS c -- since 15
        ON c.relnamespace = m.pnnspid AND c.relkind IN ('r', 'p') -- since 15
    WHERE p.pubupdate OR p.pubdelete -- since 15
), leaf AS (
    SELECT oid, updates, deletes FROM published
    UNION
    SELECT h.inhrelid, l.updates, l.deletes
    FROM leaf AS l
    JOIN pg_catalog.pg_class AS c ON c.oid = l.oid AND c.relkind = 'p'
    JOIN pg_catalog.pg_inherits AS h ON h.inhparent = l.oid
), lacking AS (
    SELECT c.oid, n.nspname AS schema, c.relname AS name,
           bool_or(l.updates) AS updates, bool_or(l.deletes) AS deletes
    FROM leaf AS l
    JOIN pg_catalog.pg_class AS c ON c.oid = l.oid
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND c.oid >= 16384
      AND c.relreplident <> 'f'
      AND NOT EXISTS (
          SELECT FROM pg_catalog.pg_index AS i
          WHERE i.indrelid = c.oid AND i.indisvalid AND i.indimmediate
            AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END
      )
    GROUP BY c.oid, n.nspname, c.relname
)
SELECT k.schema, k.name, k.updates, k.deletes, usable.index,
       CASE WHEN k.updates THEN pg_stat_get_tuples_updated(k.oid) ELSE 0 END
       + CASE WHEN k.deletes THEN pg_stat_get_tuples_deleted(k.oid) ELSE 0 END AS changes
FROM lacking AS k
LEFT JOIN LATERAL (
    SELECT x.relname AS index
    FROM pg_catalog.pg_index AS i
    JOIN pg_catalog.pg_class AS x ON x.oid = i.indexrelid
    WHERE i.indrelid = k.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
      AND i.indpred IS NULL AND i.indexprs IS NULL
      AND NOT EXISTS (
          SELECT FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS u (number, place)
          JOIN pg_catalog.pg_attribute AS a ON a.attrelid = k.oid AND a.attnum = u.number
          WHERE u.place <= i.indnkeyatts AND NOT a.attnotnull
      )
    ORDER BY i.indnkeyatts, i.indexrelid
    LIMIT 1
) AS usable ON true
ORDER BY changes DESC, k.schema, k.name
LIMIT 1000
