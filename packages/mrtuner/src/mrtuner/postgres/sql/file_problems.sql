-- With the value that the other files give the same parameter; NULL: none does.
WITH lines AS MATERIALIZED (
    SELECT f.seqno, f.sourcefile, f.sourceline, f.name, f.setting, f.error
    FROM pg_catalog.pg_file_settings AS f
)
SELECT f.sourcefile, f.sourceline, f.name, f.setting, f.error,
       (SELECT other.setting FROM lines AS other
        WHERE lower(other.name) = lower(f.name) AND other.sourcefile <> f.sourcefile
        ORDER BY other.seqno DESC LIMIT 1) AS elsewhere
FROM lines AS f
WHERE f.error IS NOT NULL
ORDER BY f.seqno
