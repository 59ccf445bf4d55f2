/*
help = "Age of each database's oldest transaction ID and multixact ID"
interval = "5min"
export_largest = ["age", "multixact_age"]

[keys]
database = { help = "the database" }

[gauges]
age = { help = "transactions since datfrozenxid; rounded to 100,000" }
multixact_age = { help = "multixacts since datminmxid; rounded to 100,000" }
*/
-- Rounded, since each row that differs from the one before is kept.
SELECT datname AS database, age(datfrozenxid)::bigint / 100000 * 100000 AS age,
       mxid_age(datminmxid)::bigint / 100000 * 100000 AS multixact_age
FROM pg_catalog.pg_database
