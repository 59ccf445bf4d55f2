SELECT gid, database, owner, database = current_database() AS here, age(transaction) AS age,
       extract(epoch FROM clock_timestamp() - prepared)::float8 AS seconds,
       NULL AS xmin, transaction::text AS xid, concat(gid, ' ', prepared) AS key
FROM pg_catalog.pg_prepared_xacts
ORDER BY prepared, gid
