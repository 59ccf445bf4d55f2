-- Without the texts, which need not be read. Times [s] of the statements that were compiled.
SELECT sum(calls)::bigint AS calls, sum(total_exec_time)::float / 1000 AS running,
       sum(jit_generation_time + jit_inlining_time + jit_optimization_time
           + jit_emission_time)::float / 1000 AS compiling,
       NULL::float AS seconds -- before 17
       extract(epoch FROM clock_timestamp() - min(stats_since))::float AS seconds -- since 17
FROM @extschema@.pg_stat_statements(false)
WHERE jit_functions > 0
HAVING sum(calls) > 0
