-- What the files say of each parameter now: the last line without an error.
SELECT DISTINCT ON (lower(f.name)) lower(f.name) AS name, f.setting AS value,
       f.sourcefile || ':' || f.sourceline AS place
FROM pg_catalog.pg_file_settings AS f
WHERE f.error IS NULL
ORDER BY lower(f.name), f.seqno DESC
