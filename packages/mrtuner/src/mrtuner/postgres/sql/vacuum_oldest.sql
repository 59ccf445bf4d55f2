-- What keeps datfrozenxid and datminmxid of this database back: the oldest relation by each, and every
-- temporary table, which no autovacuum may freeze while its session lasts. A TOAST table is named by
-- its table. The number of a temporary schema is that of its backend; before 16 none can be asked
-- for by that number. Source: autovacuum.c, do_autovacuum; namespace.c, InitTempTableNamespace.
WITH relations AS (
    SELECT c.oid, coalesce(m.oid, c.oid) AS main, c.relpersistence = 't' AS temporary, c.relkind,
           age(c.relfrozenxid) AS age, mxid_age(c.relminmxid) AS multixact_age
    FROM pg_catalog.pg_class AS c
    LEFT JOIN pg_catalog.pg_class AS m ON c.relkind = 't' AND m.reltoastrelid = c.oid
    WHERE c.relkind IN ('r', 'm', 't') AND c.relfrozenxid <> '0'
)
SELECT n.nspname AS schema, k.relname AS name, r.temporary, r.age, r.multixact_age,
       NULL::int AS pid -- before 16
       CASE WHEN pg_stat_get_backend_dbid(b.number) = d.oid -- since 16
            THEN pg_stat_get_backend_pid(b.number) END AS pid -- since 16
FROM relations AS r
JOIN pg_catalog.pg_class AS k ON k.oid = r.main
JOIN pg_catalog.pg_namespace AS n ON n.oid = k.relnamespace
JOIN pg_catalog.pg_database AS d ON d.datname = current_database()
CROSS JOIN LATERAL (SELECT substring(n.nspname FROM '^pg_temp_([0-9]+)$')::int AS number) AS b
WHERE (r.temporary AND r.relkind = 'r')
   OR r.oid = (SELECT oid FROM relations ORDER BY age DESC, oid LIMIT 1)
   OR r.oid = (SELECT oid FROM relations ORDER BY multixact_age DESC, oid LIMIT 1)
ORDER BY r.age DESC, r.oid
