-- The server's own value of each parameter that this session sees otherwise: by ALTER ROLE, by ALTER
-- DATABASE, or as its client asked. NULL: no file sets it. Source: guc_tables.c, GucSource_Names.
WITH files AS MATERIALIZED (
    SELECT DISTINCT ON (lower(f.name)) lower(f.name) AS name, f.setting, f.sourcefile, f.sourceline
    FROM pg_catalog.pg_file_settings AS f
    WHERE f.error IS NULL
    ORDER BY lower(f.name), f.seqno DESC
)
SELECT s.name, f.setting, f.sourcefile, f.sourceline
FROM pg_catalog.pg_settings AS s
LEFT JOIN files AS f ON f.name = lower(s.name)
WHERE s.source IN ('global', 'database', 'user', 'database user', 'client', 'interactive', 'session')
