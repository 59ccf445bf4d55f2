SELECT name, setting, unit, source FROM pg_catalog.pg_settings
WHERE name LIKE 'autovacuum%' OR name LIKE 'vacuum%' OR name IN ('track_counts', 'block_size')
ORDER BY name
