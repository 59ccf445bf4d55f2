-- Indexes of partitioned tables that are invalid, since not every partition has one attached to it; with
-- each such partition comes an index of the same columns that could be, if there is one. Or since one was
-- attached while it was invalid, or the last partition that lacked one is gone: then each has its own. A
-- partition that is partitioned itself comes first: what makes its index valid does so with this one. A
-- foreign table has no index, so nothing does there.
SELECT n.nspname AS schema, t.relname AS table, x.relname AS name,
       coalesce(jsonb_agg(jsonb_build_array(pn.nspname, p.relname, same.schema, same.name)
                          ORDER BY pn.nspname, p.relname)
                    FILTER (WHERE p.relkind <> 'f' AND child.name IS NULL), '[]') AS lacking,
       EXISTS (SELECT FROM pg_catalog.pg_constraint AS k WHERE k.conindid = i.indexrelid) AS enforces,
       i.indisunique AS "unique",
       jsonb_agg(jsonb_build_array(child.schema, child.name, child.valid)
                 ORDER BY child.valid, child.schema, child.name)
           FILTER (WHERE child.name IS NOT NULL) -> 0 AS attached,
       (SELECT jsonb_build_array(rn.nspname, r.relname)
        FROM pg_catalog.pg_class AS r JOIN pg_catalog.pg_namespace AS rn ON rn.oid = r.relnamespace
        WHERE r.oid = pg_partition_root(i.indexrelid)) AS top
FROM pg_catalog.pg_index AS i
JOIN pg_catalog.pg_class AS x ON x.oid = i.indexrelid AND x.relkind = 'I'
JOIN pg_catalog.pg_class AS t ON t.oid = i.indrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = t.relnamespace
JOIN pg_catalog.pg_inherits AS h ON h.inhparent = t.oid
     -- To a partition that DETACH CONCURRENTLY has left halfway, no index can be attached.
     AND NOT h.inhdetachpending -- since 14
JOIN pg_catalog.pg_class AS p ON p.oid = h.inhrelid AND p.relkind IN ('r', 'p', 'f')
JOIN pg_catalog.pg_namespace AS pn ON pn.oid = p.relnamespace
LEFT JOIN LATERAL (
    SELECT cn.nspname AS schema, c.relname AS name, c.relkind AS kind, o.indisvalid AS valid
    FROM pg_catalog.pg_inherits AS u
    JOIN pg_catalog.pg_index AS o ON o.indexrelid = u.inhrelid
    JOIN pg_catalog.pg_class AS c ON c.oid = o.indexrelid
    JOIN pg_catalog.pg_namespace AS cn ON cn.oid = c.relnamespace
    WHERE u.inhparent = i.indexrelid AND o.indrelid = p.oid
) AS child ON true
LEFT JOIN LATERAL (
    SELECT array_agg(a.attname ORDER BY k.place) AS names
    FROM unnest(i.indkey) WITH ORDINALITY AS k (number, place)
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = t.oid AND a.attnum = k.number
) AS own ON true
LEFT JOIN LATERAL (
    SELECT cn.nspname AS schema, c.relname AS name
    FROM pg_catalog.pg_index AS o
    JOIN pg_catalog.pg_class AS c ON c.oid = o.indexrelid
    JOIN pg_catalog.pg_namespace AS cn ON cn.oid = c.relnamespace
    WHERE child.name IS NULL AND o.indrelid = p.oid AND o.indisvalid
      AND i.indexprs IS NULL AND o.indexprs IS NULL AND i.indpred IS NULL AND o.indpred IS NULL
      -- An index of a constraint takes only those of constraints.
      AND (NOT EXISTS (SELECT FROM pg_catalog.pg_constraint AS k WHERE k.conindid = i.indexrelid)
           OR EXISTS (SELECT FROM pg_catalog.pg_constraint AS k WHERE k.conindid = o.indexrelid))
      AND o.indisunique = i.indisunique AND o.indnkeyatts = i.indnkeyatts
      AND (SELECT f.relam FROM pg_catalog.pg_class AS f WHERE f.oid = i.indexrelid) = c.relam
      AND o.indclass = i.indclass AND o.indcollation = i.indcollation AND o.indoption = i.indoption
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits AS u WHERE u.inhrelid = o.indexrelid)
      AND (SELECT array_agg(a.attname ORDER BY k.place)
           FROM unnest(o.indkey) WITH ORDINALITY AS k (number, place)
           JOIN pg_catalog.pg_attribute AS a ON a.attrelid = p.oid AND a.attnum = k.number
          ) = own.names
    ORDER BY o.indexrelid
    LIMIT 1
) AS same ON true
WHERE NOT i.indisvalid AND n.nspname NOT IN ('pg_catalog', 'information_schema')
GROUP BY i.indexrelid, i.indisunique, n.nspname, t.relname, x.relname
HAVING count(*) FILTER (WHERE p.relkind <> 'f' AND child.name IS NULL) > 0
    OR NOT bool_or(p.relkind = 'f') AND bool_and(child.valid OR child.kind = 'i')
ORDER BY n.nspname, t.relname, x.relname
LIMIT 100
