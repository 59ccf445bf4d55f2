-- Without it, other roles' sessions show no snapshot: nothing in the way would look like nothing.
SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_all,
       pg_is_in_recovery() AS in_recovery
