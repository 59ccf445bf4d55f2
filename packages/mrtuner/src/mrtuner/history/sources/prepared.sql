/*
help = "Prepared transactions (two-phase commit), which hold locks and keep vacuum from removing rows"
interval = "1min"

[gauges]
transactions = { help = "how many there are" }
oldest = { type = "float", unit = "s", help = "time since the oldest was prepared" }
age = { help = "transactions since the oldest" }
*/
SELECT count(*) AS transactions,
       extract(epoch FROM clock_timestamp() - min(prepared))::float8 AS oldest,
       max(age(transaction))::bigint AS age
FROM pg_catalog.pg_prepared_xacts
