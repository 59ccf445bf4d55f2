/*
help = "Settings, when they are first seen and when they change"
interval = "1min"
keep = "1826d"
grant = "pg_read_all_settings"

[keys]
name = { help = "the parameter" }

[texts]
value = { help = "its value, in its base unit" }
unit = { help = "its base unit" }
origin = { help = "default, configuration file, command line, …" }
pending = { type = "boolean", help = "changed in the files, waits for a restart" }
loaded = { type = "float", unit = "s", help = "of server_version: when the files were read, since 1970" }
*/
-- What the recorder's own session sets is shown as it was before. Secrets stay at the server, as
-- postgres/secret_settings.py explains.
SELECT name,
       CASE WHEN (name IN ('archive_cleanup_command', 'archive_command', 'primary_conninfo',
                           'recovery_end_command', 'restore_command', 'ssl_passphrase_command')
                  OR name ~* '\..*(passw|passphrase|secret|token|salt|credential|key|dsn|conninfo)')
                 AND value !~ '^(|\(disabled\)|on|off)$'
            THEN '(set, ' || left(encode(sha256(convert_to(value, 'UTF8')), 'hex'), 2) || ')'
            ELSE value END AS value,
       unit,
       CASE WHEN source <> 'session' THEN source
            WHEN reset_val = boot_val THEN 'default' END AS origin,
       pending_restart AS pending,
       CASE WHEN name = 'server_version' THEN extract(epoch FROM pg_conf_load_time())::float8
       END AS loaded
FROM (SELECT *, CASE WHEN source = 'session' THEN reset_val ELSE setting END AS value
      FROM pg_catalog.pg_settings) AS s
WHERE source NOT IN ('client', 'interactive', 'test')
  AND name NOT IN ('application_name', 'client_encoding', 'in_hot_standby', 'num_os_semaphores',
                   'transaction_isolation', 'transaction_read_only', 'transaction_deferrable')
