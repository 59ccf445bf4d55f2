SELECT datname AS name, age(datfrozenxid) AS age, mxid_age(datminmxid) AS multixact_age
FROM pg_catalog.pg_database
ORDER BY age(datfrozenxid) DESC, datname
