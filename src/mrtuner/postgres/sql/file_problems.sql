SELECT sourcefile, sourceline, name, error
FROM pg_catalog.pg_file_settings
WHERE error IS NOT NULL
ORDER BY seqno
