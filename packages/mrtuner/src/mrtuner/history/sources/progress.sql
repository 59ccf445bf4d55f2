/*
help = "VACUUM, ANALYZE, CREATE INDEX, CLUSTER, REPACK, base backups and COPY in progress"
interval = "10s"
keep = "35d"

[keys]
pid = { type = "integer", help = "the process" }
command = { help = "what it does" }

[texts]
database = { help = "its database" }
relation = { type = "integer", help = "OID of the relation" }
phase = { help = "what it does now" }

[gauges]
done = { help = "blocks, or bytes of a base backup or COPY, that are done" }
total = { help = "of so many; null: unknown" }
*/
SELECT pid, 'VACUUM' AS command, datname AS database, relid::bigint AS relation, phase,
       heap_blks_scanned AS done, heap_blks_total AS total
FROM pg_catalog.pg_stat_progress_vacuum
UNION ALL
SELECT pid, 'ANALYZE', datname, relid::bigint, phase, sample_blks_scanned, sample_blks_total
FROM pg_catalog.pg_stat_progress_analyze
UNION ALL
SELECT pid, command, datname, relid::bigint, phase, blocks_done, blocks_total
FROM pg_catalog.pg_stat_progress_create_index
UNION ALL
SELECT pid, command, datname, relid::bigint, phase, heap_blks_scanned, heap_blks_total
FROM pg_catalog.pg_stat_progress_cluster -- before 19
FROM pg_catalog.pg_stat_progress_repack -- since 19
UNION ALL
SELECT pid, 'BASE_BACKUP', NULL, NULL, phase, backup_streamed, backup_total
FROM pg_catalog.pg_stat_progress_basebackup
UNION ALL -- since 14
SELECT pid, command, datname, relid::bigint, type, bytes_processed, nullif(bytes_total, 0) -- since 14
FROM pg_catalog.pg_stat_progress_copy -- since 14
