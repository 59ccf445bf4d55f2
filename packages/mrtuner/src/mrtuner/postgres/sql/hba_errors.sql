-- Lines of pg_hba.conf that the server cannot use: with one of them it does not start.
SELECT line_number, error,
       (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'hba_file') AS file_name -- before 16
       file_name -- since 16
FROM pg_catalog.pg_hba_file_rules
WHERE error IS NOT NULL AND type IS NULL -- else it only warns: hostssl without ssl
ORDER BY file_name, line_number
LIMIT 5
