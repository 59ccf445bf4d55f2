-- datfrozenxid and datminmxid give the pace of both counters: age grows by what was used up.
-- Counters that nobody reset (NULL since 15) began with the cluster or after its last crash, as those of
-- the whole server did: then two of them tell the same time, and it may be after the start of a postmaster
-- that survived the crash. If somebody has reset them since, the start is the earliest that is known.
SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       extract(epoch FROM s.stats_reset)::float8 AS reset_at,
       extract(epoch FROM began.at)::float8 AS began_at,
       (s.xact_commit + s.xact_rollback)::bigint AS transactions,
       elsewhere.number AS elsewhere, elsewhere.pace AS pace_elsewhere,
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next_xid,
       d.datminmxid::text AS oldest_multixact, mxid_age(d.datminmxid) AS multixact_age
FROM pg_catalog.pg_stat_database AS s
JOIN pg_catalog.pg_database AS d ON d.oid = s.datid
CROSS JOIN (
    SELECT least(
               CASE WHEN (archiver IN (bgwriter, slru) OR bgwriter = slru) IS NOT TRUE
                    THEN pg_postmaster_start_time() END,
               archiver, bgwriter, slru) AS at
    FROM (SELECT a.stats_reset AS archiver, b.stats_reset AS bgwriter,
                 (SELECT min(stats_reset) FROM pg_catalog.pg_stat_slru) AS slru
          FROM pg_catalog.pg_stat_archiver AS a, pg_catalog.pg_stat_bgwriter AS b) AS r
) AS began
CROSS JOIN LATERAL (
    SELECT sum(o.xact_commit + o.xact_rollback)::bigint AS number,
           sum((o.xact_commit + o.xact_rollback) / greatest(60, extract(
               epoch FROM clock_timestamp() - coalesce(o.stats_reset, began.at))))::float8 AS pace
    FROM pg_catalog.pg_stat_database AS o
    WHERE o.datid <> s.datid
) AS elsewhere
WHERE d.datname = current_database()
