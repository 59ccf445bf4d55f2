-- Roles whose password expires within two weeks, or has expired although they have sessions. `later`:
-- some of these began after that, so the role needs no password; NULL: that is hidden. Vault's roles
-- live as long as a lease. Source: openbao/vault, postgresql.go, defaultUserNameTemplate.
SELECT r.rolname AS role, extract(epoch FROM r.rolvaliduntil)::float8 AS expires,
       to_char(r.rolvaliduntil AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') AS told,
       count(a.pid) AS sessions, bool_or(a.backend_start > r.rolvaliduntil) AS later
FROM pg_catalog.pg_roles AS r
-- Workers are no sessions of theirs, and begin later.
LEFT JOIN pg_catalog.pg_stat_activity AS a
    ON a.usesysid = r.oid
       AND coalesce(a.backend_type, 'client backend') IN ('client backend', 'walsender')
WHERE r.rolcanlogin AND isfinite(r.rolvaliduntil)
  AND r.rolvaliduntil < clock_timestamp() + interval '14 days'
  AND r.rolname !~ '^v-.+-[0-9]{10}$'
GROUP BY r.rolname, r.rolvaliduntil
HAVING r.rolvaliduntil > clock_timestamp() OR count(a.pid) > 0
ORDER BY expires, role
