SELECT system_identifier::text AS system, current_database() AS database
FROM pg_catalog.pg_control_system()
