/*
help = "Reads and writes by kind of process, object and context"
interval = "1min"
reset = "stats_reset"

[keys]
backend_type = { help = "client backend, autovacuum worker, checkpointer, …" }
object = { help = "relation, temp relation or wal" }
context = { help = "normal, vacuum, bulkread or bulkwrite" }

[counters]
reads = { help = "read operations" }
read_bytes = { unit = "bytes", help = "data read" }
read_ms = { type = "float", unit = "ms", help = "time reading, with track_io_timing" }
writes = { help = "write operations" }
write_bytes = { unit = "bytes", help = "data written" }
write_ms = { type = "float", unit = "ms", help = "time writing, with track_io_timing" }
extends = { help = "operations that extended a relation" }
extend_bytes = { unit = "bytes", help = "data by which relations were extended" }
hits = { help = "blocks found in shared_buffers" }
evictions = { help = "blocks written out to make room" }
fsyncs = { help = "fsync calls" }
fsync_ms = { type = "float", unit = "ms", help = "time in fsync, with track_io_timing" }
*/
SELECT backend_type, object, context, stats_reset::text AS stats_reset,
       reads, reads * op_bytes AS read_bytes, read_time AS read_ms, -- before 18
       writes, writes * op_bytes AS write_bytes, write_time AS write_ms, -- before 18
       extends, extends * op_bytes AS extend_bytes, -- before 18
       reads, read_bytes::bigint AS read_bytes, read_time AS read_ms, -- since 18
       writes, write_bytes::bigint AS write_bytes, write_time AS write_ms, -- since 18
       extends, extend_bytes::bigint AS extend_bytes, -- since 18
       hits, evictions, fsyncs, fsync_time AS fsync_ms
FROM pg_catalog.pg_stat_io
