SELECT datname AS name, age(datfrozenxid) AS age, mxid_age(datminmxid) AS multixact_age
FROM pg_catalog.pg_database
WHERE datconnlimit <> -2 -- one whose DROP was interrupted holds nothing back: vac_truncate_clog
ORDER BY age(datfrozenxid) DESC, datname
