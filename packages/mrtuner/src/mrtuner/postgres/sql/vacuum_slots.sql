SELECT slot_name AS name, slot_type AS type, active, database,
       age(xmin) AS age, age(catalog_xmin) AS catalog_age,
       slot_name AS key, xmin::text AS xmin, NULL AS xid
FROM pg_catalog.pg_replication_slots
WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL
ORDER BY greatest(age(xmin), age(catalog_xmin)) DESC, slot_name
