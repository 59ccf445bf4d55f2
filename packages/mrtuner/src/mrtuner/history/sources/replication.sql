/*
help = "Standbys and other receivers of WAL, and how far they are behind"
interval = "1min"

[keys]
application = { help = "application_name of the receiver" }
client = { help = "its address" }
pid = { type = "integer", help = "process of its sender" }

[texts]
state = { help = "streaming, catchup, backup, …" }
sync_state = { help = "async, potential, sync or quorum" }

[gauges]
sent_behind = { unit = "bytes", help = "WAL not yet sent" }
flush_behind = { unit = "bytes", help = "WAL not yet flushed there" }
replay_behind = { unit = "bytes", help = "WAL not yet replayed there" }
write_lag = { type = "float", unit = "s", help = "time until it was written there" }
flush_lag = { type = "float", unit = "s", help = "time until it was flushed there" }
replay_lag = { type = "float", unit = "s", help = "time until it was replayed there" }
*/
SELECT s.application_name AS application, s.client_addr::text AS client, s.pid, s.state,
       s.sync_state,
       (here.lsn - s.sent_lsn)::bigint AS sent_behind,
       (here.lsn - s.flush_lsn)::bigint AS flush_behind,
       (here.lsn - s.replay_lsn)::bigint AS replay_behind,
       extract(epoch FROM s.write_lag)::float8 AS write_lag,
       extract(epoch FROM s.flush_lag)::float8 AS flush_lag,
       extract(epoch FROM s.replay_lag)::float8 AS replay_lag
FROM pg_catalog.pg_stat_replication AS s,
     (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
             ELSE pg_current_wal_lsn() END AS lsn) AS here
