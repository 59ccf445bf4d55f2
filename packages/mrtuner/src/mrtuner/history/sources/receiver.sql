/*
help = "How a standby receives and replays WAL; nothing on a primary"
interval = "1min"

[texts]
status = { help = "streaming, waiting, …; null: no receiver runs" }
host = { help = "the server that sends; null: it reads archived files" }
slot = { help = "the slot that it uses there" }

[gauges]
streaming = { help = "1: a receiver runs and streams; else 0; null: hidden from the role" }
silent = { type = "float", unit = "s", help = "time since the last message of the sender" }
not_replayed = { unit = "bytes", help = "WAL received and not yet replayed" }
replayed = { type = "float", unit = "s", help = "time since the commit that was replayed last; grows while the primary is idle" }
*/
SELECT r.status, r.sender_host AS host, r.slot_name AS slot,
       CASE WHEN pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')
            THEN CASE WHEN r.status = 'streaming' THEN 1 ELSE 0 END END AS streaming,
       extract(epoch FROM clock_timestamp() - r.last_msg_receipt_time)::float8 AS silent,
       greatest(pg_last_wal_receive_lsn() - pg_last_wal_replay_lsn(), 0)::bigint AS not_replayed,
       extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 AS replayed
FROM (SELECT) AS here LEFT JOIN pg_catalog.pg_stat_wal_receiver AS r ON true
WHERE pg_is_in_recovery()
