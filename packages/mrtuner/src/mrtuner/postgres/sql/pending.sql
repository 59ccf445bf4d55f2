SELECT name FROM pg_catalog.pg_settings WHERE pending_restart
