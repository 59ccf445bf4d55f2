SELECT sourcefile, sourceline, name, setting, error
FROM pg_catalog.pg_file_settings
WHERE error IS NOT NULL
ORDER BY seqno
