"""Changes that wait for a restart, among what pg_file_settings calls errors.

A line whose value differs from the one in force has the same error as a line with an unusable
value; only pg_settings.pending_restart distinguishes them, in the session that has read the view.
That flag alone proves nothing: it remains after the line that caused it is removed. A parameter
whose line is gone has a row of its own, without file or name. None of the texts is translated.
Source: guc.c and guc-file.l, ProcessConfigFileInternal, 13 to 18.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from mrtuner.postgres.model import Pending

_NOT_APPLIED: Final = "setting could not be applied"
_GONE: Final = re.compile(r'parameter "(.+)" cannot be changed without restarting the server')


def waiting(
    name: str | None, value: str | None, error: str | None, flagged: Collection[str]
) -> Pending | None:
    """Return the pending change that a row of the view stands for; None for any other row.

    `flagged` are the names with pending_restart, queried after the view was read.

    >>> gone = 'parameter "wal_buffers" cannot be changed without restarting the server'
    >>> waiting(None, None, gone, ()) == Pending(name="wal_buffers", value=None, removed=True)
    True
    >>> waiting("max_connections", "many", "setting could not be applied", ())
    """
    if name is None and (gone := _GONE.fullmatch(error or "")):
        return Pending(name=gone[1], value=None, removed=True)
    if name is not None and error == _NOT_APPLIED and name.lower() in flagged:
        return Pending(name=name.lower(), value=value)
    return None


def unclear(name: str | None, error: str | None, seen: Collection[str]) -> bool:
    """Whether a row may be a pending change or an error, of a parameter that is not `seen`.

    What a role may not see has no row in pg_settings, and so no flag.

    >>> unclear("shared_preload_libraries", "setting could not be applied", {"work_mem"})
    True
    """
    return name is not None and error == _NOT_APPLIED and name.lower() not in seen
