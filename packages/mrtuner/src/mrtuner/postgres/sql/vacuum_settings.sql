SELECT name, setting, unit FROM pg_catalog.pg_settings
WHERE name LIKE 'autovacuum%' OR name LIKE 'vacuum%' OR name IN ('track_counts', 'block_size')
ORDER BY name
