SELECT queryid, query FROM @extschema@.pg_stat_statements
WHERE queryid = ANY (%s) AND query <> '<insufficient privilege>'
