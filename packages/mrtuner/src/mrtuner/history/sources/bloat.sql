/*
help = "Space of tables and B-tree indexes that holds no live row, estimated from column widths"
interval = "1h"
timeout = "30s"
per_database = true
export_largest = ["bytes", "toast_bytes"]

[keys]
database = { help = "the database" }
kind = { help = "table or index" }
schema = { help = "the schema" }
name = { help = "the table or index" }
relation = { type = "integer", label = false, help = "its OID" }

[texts]
table_name = { help = "of an index: the table that it is for" }

[gauges]
bytes = { unit = "bytes", help = "size at the last vacuum or analyze" }
bloat = { unit = "bytes", help = "of it dead rows and free space, estimated; null: unknown" }
toast_bytes = { unit = "bytes", help = "size of its TOAST table at that one's last vacuum" }
toast_bloat = { unit = "bytes", help = "of it at least so much is dead chunks and free space" }
*/
-- No table is read or locked: rows and pages are those of the last vacuum or analyze, the widths of
-- columns those of pg_stats, which shows them to who may read the table. A row takes a header, its
-- columns, what aligns them, and a line pointer; a page takes whole rows up to the fillfactor.
WITH tables AS (
    SELECT c.oid, n.nspname, c.relname, c.relpages, c.reltuples, c.reloptions,
           t.relpages::float8 AS toast_pages, t.reltuples::float8 AS chunks
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    LEFT JOIN pg_catalog.pg_class AS t ON t.oid = c.reltoastrelid
    WHERE c.relkind IN ('r', 'm') AND c.relpersistence <> 't'
      AND n.nspname NOT IN ('pg_catalog', 'information_schema')
), relations AS (
    SELECT oid, 'table' AS kind, nspname, relname, NULL::name AS table_name, relpages, reltuples,
           reloptions, '100' AS usual_fillfactor, toast_pages, chunks
    FROM tables
    UNION ALL
    SELECT k.oid, 'index', t.nspname, k.relname, t.relname, k.relpages, k.reltuples,
           k.reloptions, '90', NULL, NULL
    FROM tables AS t
    JOIN pg_catalog.pg_index AS x ON x.indrelid = t.oid AND x.indisvalid
    JOIN pg_catalog.pg_class AS k ON k.oid = x.indexrelid
    JOIN pg_catalog.pg_am AS m ON m.oid = k.relam AND m.amname = 'btree'
), attributes AS (
    -- An index has statistics of its expressions alone, its table those of the columns.
    SELECT r.oid, r.kind, a.attnum, a.attisdropped AS dropped, a.attlen < 0 AS varies, a.attalign,
           r.nspname, coalesce(o.relname, r.relname) AS relname,
           coalesce(o.attname, a.attname) AS attname
    FROM relations AS r
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = r.oid AND a.attnum > 0
    LEFT JOIN LATERAL (
        SELECT r.table_name AS relname, b.attname FROM pg_catalog.pg_index AS x
        JOIN pg_catalog.pg_attribute AS b
          ON b.attrelid = x.indrelid AND b.attnum = x.indkey[a.attnum - 1] AND b.attnum <> 0
        WHERE x.indexrelid = r.oid AND r.kind = 'index'
    ) AS o ON true
    WHERE a.attgenerated <> 'v'
), stored AS (
    SELECT a.oid, a.kind, a.attnum, a.dropped, a.varies, s.null_frac,
           (1 - s.null_frac) * s.avg_width AS width,
           -- A short value of varying length has a header of one byte and is not aligned.
           CASE WHEN a.varies AND s.avg_width < 128 THEN 1
                ELSE CASE a.attalign WHEN 'd' THEN 8 WHEN 'i' THEN 4 ELSE 1 END END AS aligned
    FROM attributes AS a
    LEFT JOIN pg_catalog.pg_stats AS s
      ON s.schemaname = a.nspname AND s.tablename = a.relname AND s.attname = a.attname
         AND NOT s.inherited
), placed AS (
    SELECT stored.*, count(*) FILTER (WHERE aligned >= 4) OVER so_far AS by_four,
           count(*) FILTER (WHERE aligned = 8) OVER so_far AS by_eight
    FROM stored WHERE NOT dropped
    WINDOW so_far AS (PARTITION BY oid ORDER BY attnum)
), fours AS (
    -- From one column that begins at a multiple of four bytes to the next: what lies between them
    -- is filled up, by half of the most on average where lengths vary. Likewise below to eight,
    -- where the row ends as well.
    SELECT oid, by_eight, bool_or(varies) AS vary,
           CASE WHEN bool_or(varies) THEN sum(width) + 1.5
                ELSE ceil(sum(width) / 4) * 4 END AS width
    FROM placed GROUP BY oid, by_eight, by_four
), eights AS (
    SELECT oid, CASE WHEN bool_or(vary) THEN sum(width) + 2
                     ELSE ceil(sum(width) / 8) * 8 END AS width
    FROM fours GROUP BY oid, by_eight
), widths AS (
    SELECT oid, sum(width) AS width FROM eights GROUP BY oid
), headers AS (
    -- 23 bytes in a table and a bit for each column where any may be null; 8 in an index, or 16.
    SELECT oid, bool_and(dropped OR null_frac IS NOT NULL) AS known,
           CASE WHEN kind = 'index' THEN CASE WHEN bool_or(null_frac > 0) THEN 16 ELSE 8 END
                WHEN bool_or(dropped OR null_frac > 0)
                THEN ceil((23 + ceil(count(*) / 8.0)) / 8) * 8 ELSE 24 END AS header
    FROM stored GROUP BY oid, kind
), sizes AS (
    SELECT r.*, r.relpages::float8 AS pages, r.reltuples::float8 AS live, b.block, h.known,
           h.header + w.width + 4 AS taken,
           -- A page begins with 24 bytes, one of an index ends with 16.
           b.block * f.filled / 100 - CASE WHEN r.kind = 'index' THEN 40 ELSE 24 END AS room
    FROM relations AS r
    LEFT JOIN headers AS h ON h.oid = r.oid LEFT JOIN widths AS w ON w.oid = r.oid
    CROSS JOIN LATERAL (SELECT current_setting('block_size')::float8 AS block) AS b
    CROSS JOIN LATERAL (
        SELECT coalesce(substring(array_to_string(r.reloptions, ' ') FROM 'fillfactor=([0-9]+)'),
                        r.usual_fillfactor)::float8 AS filled
    ) AS f
), needed AS (
    SELECT *, CASE WHEN live = 0 THEN CASE WHEN kind = 'index' THEN 1 ELSE 0 END
                   WHEN known IS NOT TRUE OR live < 0 THEN NULL
                   WHEN kind = 'table' THEN ceil(live / greatest(1, floor(room / taken)))
                   -- Each page of an index has its high key, and above its leaves are others.
                   ELSE 1 + ceil(live / greatest(1, floor(room / taken) - 1)
                                 * (1 + taken / room)) END AS pages_needed
    FROM sizes
)
SELECT current_database() AS database, kind, nspname AS schema, relname AS name,
       oid::bigint AS relation, table_name,
       (pages * block)::bigint AS bytes,
       (CASE WHEN pages > 0 AND pages_needed >= 0
             THEN greatest(pages - pages_needed, 0) * block END)::bigint AS bloat,
       (toast_pages * block)::bigint AS toast_bytes,
       -- A page takes four whole chunks. The last chunk of a value is shorter.
       (CASE WHEN toast_pages > 0 AND chunks >= 0
             THEN greatest(toast_pages - ceil(chunks / 4), 0) * block END)::bigint AS toast_bloat
FROM needed
