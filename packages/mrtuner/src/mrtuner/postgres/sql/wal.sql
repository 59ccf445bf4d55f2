-- PostgreSQL 13 does not count WAL.
SELECT NULL::float AS seconds, NULL::bigint AS wal_bytes, NULL::bigint AS wal_buffers_full
