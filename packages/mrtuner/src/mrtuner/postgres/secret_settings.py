"""Settings in which people keep passwords and keys: what they are set to is told to nobody.

A command or a connection string can have a secret anywhere, so all of its value is hidden. That it
changed is still told, by two hexadecimal digits of its hash: they miss one change in 256, and are
too few to confirm a guess.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

#: Names in PostgreSQL; the recorder hides the same ones at the server (settings.sql).
SECRET: Final = frozenset({
    "archive_cleanup_command", "archive_command", "primary_conninfo", "recovery_end_command",
    "restore_command", "ssl_passphrase_command",
})  # fmt: skip
#: Names of extensions' settings, such as anon.salt.
_NAMED_SO: Final = r"\..*(passw|passphrase|secret|token|salt|credential|key|dsn|conninfo)"
#: Values that are none: off by archive_mode, a switch, or hidden already.
_OPEN: Final = r"(|\(disabled\)|on|off|\(set(, [0-9a-f]{2})?\))"


def is_secret(name: str) -> bool:
    """Whether a setting of this name may hold a secret.

    >>> is_secret("Restore_Command"), is_secret("anon.salt"), is_secret("work_mem")
    (True, True, False)
    """
    return name.lower() in SECRET or re.search(_NAMED_SO, name.lower()) is not None


def shown(name: str, value: str) -> str:
    """Return the value of a setting, hidden if it may hold a secret.

    >>> shown("archive_command", "AWS_SECRET_ACCESS_KEY=hunter2 wal-g wal-push %p")
    '(set, 61)'
    >>> shown("archive_command", ""), shown("work_mem", "4096")
    ('', '4096')
    """
    if not is_secret(name) or re.fullmatch(_OPEN, value):
        return value
    return f"(set, {hashlib.sha256(value.encode()).hexdigest()[:2]})"


def shown_in_duckdb(rows: str) -> str:
    """Return a query for these rows of settings, their columns `name` and `value` as `shown`."""
    names = ", ".join(f"'{name}'" for name in sorted(SECRET))
    return (
        "SELECT * REPLACE (CASE "  # noqa: S608 - our own constants
        f"WHEN (lower(name) IN ({names}) OR regexp_matches(lower(name), '{_NAMED_SO}')) "
        f"AND NOT regexp_full_match(value, '{_OPEN}') "
        f"THEN '(set, ' || left(sha256(value), 2) || ')' ELSE value END AS value) FROM ({rows})"
    )
