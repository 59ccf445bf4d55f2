-- What our own session has set is shown as it was before.
SELECT name, CASE WHEN source = 'session' THEN reset_val ELSE setting END AS setting, unit,
       vartype, context, boot_val, reset_val,
       coalesce(enumvals, '{}') AS enumvals, pending_restart,
       CASE WHEN source = 'session' AND reset_val = boot_val THEN 'default' ELSE source END AS source,
       sourcefile, sourceline
FROM pg_catalog.pg_settings
ORDER BY name
