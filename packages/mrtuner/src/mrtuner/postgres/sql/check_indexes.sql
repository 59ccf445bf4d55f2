-- Indexes that are invalid, that no query has used, or that another index makes superfluous. Sizes
-- are as the last VACUUM or ANALYZE left them: the true ones need a lock on the table, and so do
-- pg_get_expr() and pg_get_indexdef(). Expressions are compared as the server stores them, without
-- their place in the text. A unique one is superfluous only beside another one that enforces the same.
WITH owner AS MATERIALIZED (
    SELECT conindid, bool_or(contype = 'u') AS "unique", bool_or(contype IN ('p', 'f', 'x')) AS needed
    FROM pg_catalog.pg_constraint WHERE conindid <> 0 GROUP BY conindid
), index AS (
    SELECT i.indexrelid, i.indrelid, n.nspname AS schema, t.relname AS table, c.relname AS name,
           c.relpages::bigint * current_setting('block_size')::int AS size,
           i.indisvalid AS valid, i.indisready AS ready, i.indislive AS live, i.indisunique AS "unique",
           i.indisunique OR i.indisexclusion OR fixed.fixed AS enforces, fixed.fixed,
           coalesce(o.unique, false) AS "constraint", a.attached,
           concat(i.indisunique, i.indimmediate
                  , i.indnullsnotdistinct -- since 15
           ) AS rule,
           pg_stat_get_numscans(i.indexrelid) AS scans,
           concat_ws(' ', c.relam, i.indkey, i.indclass, i.indcollation, i.indoption,
                     regexp_replace(i.indexprs::text, ':location -?\d+', '', 'g'), '|',
                     regexp_replace(i.indpred::text, ':location -?\d+', '', 'g'), '|',
                     i.indnkeyatts) AS columns
    FROM pg_catalog.pg_index AS i
    JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid AND c.relkind = 'i'
    JOIN pg_catalog.pg_class AS t ON t.oid = i.indrelid AND t.relpersistence <> 't'
    JOIN pg_catalog.pg_namespace AS n ON n.oid = t.relnamespace
    LEFT JOIN owner AS o ON o.conindid = i.indexrelid
    CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM pg_catalog.pg_inherits AS h WHERE h.inhrelid = i.indexrelid)
               AS attached
    ) AS a
    CROSS JOIN LATERAL (
        SELECT i.indisreplident OR i.indisclustered OR coalesce(o.needed, false)
               OR a.attached AS fixed
    ) AS fixed
    WHERE n.nspname NOT IN ('pg_catalog', 'information_schema')
      -- REINDEX CONCURRENTLY of a table may leave one behind on its TOAST table, too.
      AND (n.nspname <> 'pg_toast' OR NOT i.indisvalid)
), compared AS (
    SELECT *, CASE WHEN valid AND NOT fixed AND (NOT "unique" OR rule = first_value(rule) OVER same)
                   THEN nullif(first_value(name) OVER same, name)
              END AS same_as
    FROM index
    WINDOW same AS (PARTITION BY indrelid, columns, valid
                    ORDER BY fixed DESC, "constraint" DESC, "unique" DESC, indexrelid)
)
SELECT schema, "table", name, size, valid, ready, live, "unique", scans, enforces, "constraint", same_as, attached,
       -- REINDEX TABLE CONCURRENTLY makes all its indexes first and reports one at a time, to some roles
       -- none; but it keeps a lock on the table, which every role sees.
       -- DROP INDEX CONCURRENTLY reports nothing, but locks the index itself.
       NOT valid AND (EXISTS (
           SELECT FROM pg_catalog.pg_stat_progress_create_index AS p
           JOIN pg_catalog.pg_locks AS l ON l.pid = p.pid
           WHERE l.relation = indrelid AND l.mode = 'ShareUpdateExclusiveLock'
             AND p.datname = current_database()
             AND (p.index_relid = indexrelid
                  OR p.command IS DISTINCT FROM 'CREATE INDEX CONCURRENTLY')
       ) OR EXISTS (
           SELECT FROM pg_catalog.pg_locks AS l
           JOIN pg_catalog.pg_database AS d ON d.oid = l.database
           WHERE l.relation = indexrelid AND l.mode = 'ShareUpdateExclusiveLock'
             AND d.datname = current_database()
       )) AS building
FROM compared
WHERE NOT valid OR same_as IS NOT NULL OR scans = 0 AND NOT enforces AND size >= 10485760
ORDER BY valid, size DESC, schema, name
LIMIT 500
