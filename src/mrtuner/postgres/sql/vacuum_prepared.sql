SELECT gid, database, owner, age(transaction) AS age,
       extract(epoch FROM clock_timestamp() - prepared)::float8 AS seconds
FROM pg_catalog.pg_prepared_xacts
ORDER BY prepared, gid
