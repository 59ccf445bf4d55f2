-- What gives a platform away beside its settings.
SELECT array(SELECT rolname::text FROM pg_catalog.pg_roles) AS roles,
       array(SELECT nspname::text FROM pg_catalog.pg_namespace) AS schemas,
       array(SELECT DISTINCT application_name FROM pg_catalog.pg_stat_activity
             WHERE application_name <> '') AS applications,
       EXISTS (SELECT FROM pg_catalog.pg_proc WHERE proname = 'aurora_version') AS aurora
