-- pg_stat_statements counts JIT since its 1.10 (15): nothing before.
SELECT 0 AS calls, 0::float AS compiling, 0::float AS running, NULL::float AS seconds WHERE false
