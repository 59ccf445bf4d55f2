"""The databases of a proof: created, marked and dropped by us. No other is touched.

The template is filled once, and every run that writes gets a fresh copy of it. The template's
comment is the mark, and it covers the copy too: a server killed while copying leaves a copy
that could not be marked itself.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.bench.load.pgbench import initialise
from mrtuner.bench.plan.sizing import BYTES_PER_SCALE
from mrtuner.bench.server.session import one_row
from mrtuner.errors import MissingPart, Refused
from mrtuner.postgres.connect import connect, translated
from mrtuner.units import Bytes, MiB, pretty_bytes

if TYPE_CHECKING:
    from typing import LiteralString

    from mrtuner.host.model import Host
    from mrtuner.postgres.connect import Connection

_MARK: Final = "mrtuner proof"
#: An empty database.
_EMPTY: Final = 8 * MiB


class Owner(StrEnum):
    """What has become of the process that made a database."""

    WE = "we"
    RUNS = "runs"
    GONE = "gone"
    ELSEWHERE = "elsewhere"  # on another machine, or unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A template with a proof's mark, and its working copy if there is one."""

    template: str
    databases: tuple[str, ...]  # the copy first: it is dropped first
    owner: Owner
    mark: str


def copy_name(template: str) -> str:
    return f"{template}_run"


def size_of_database(scale: int) -> Bytes:
    """Disk space of a database with pgbench's tables at this scale."""
    return Bytes(_EMPTY + scale * BYTES_PER_SCALE)


def require_space(size: Bytes, reserve: Bytes, host: Host | None) -> None:
    """Refuse databases too large for this disk: a full disk ruins more than a measurement."""
    free = host.disk_free.value if host and host.disk_free else None
    if free is not None and size + reserve > free:
        raise Refused(
            f"the databases need {pretty_bytes(size)} and {pretty_bytes(reserve)} to spare, "
            f"but the disk has {pretty_bytes(free)} free",
            "Use a smaller scale.",
        )


def in_database(dsn: str, name: str) -> str:
    """The same connection, but to another database."""
    from psycopg.conninfo import make_conninfo

    return make_conninfo(dsn, dbname=name)


def read_only(dsn: str) -> str:
    """The same connection, but its transactions may not write."""
    from psycopg.conninfo import make_conninfo

    from mrtuner.postgres.connect import resolved

    known = resolved(dsn)  # PGOPTIONS and a service's too, which ours would replace
    said = known["options"].value if "options" in known else ""
    return make_conninfo(dsn, options=f"{said} -c default_transaction_read_only=on".strip())


def require_rights(session: Connection) -> None:
    """Refuse a standby; MissingPart unless the role may create databases and run CHECKPOINT."""
    standby, superuser, creates, version = one_row(
        session,
        "SELECT pg_is_in_recovery(), rolsuper, rolcreatedb,"
        " current_setting('server_version_num')::int FROM pg_roles WHERE rolname = current_user",
    )
    if standby:
        raise Refused("the server is a standby", "Run the proof on the primary or a copy of it.")
    if superuser:
        return
    if not creates:
        raise MissingPart("this role may not create databases", "Grant it: ALTER ROLE … CREATEDB.")
    of_15 = "SELECT pg_has_role('pg_checkpoint', 'USAGE')"
    if version < 150000 or not one_row(session, of_15)[0]:
        raise MissingPart(
            "this role may not run CHECKPOINT, which every run starts with",
            "Grant it: GRANT pg_checkpoint TO … (15 and later), or connect as a superuser.",
        )


def remove_leftovers(session: Connection, template: str) -> list[str]:
    """Drop what an earlier proof left under these names; Refused when it is not ours to drop."""
    found = _there(session, template)
    if not found:
        return []
    mark = _comment(session, template)
    if not mark.startswith(_MARK):
        raise Refused(
            f"database {found[-1]} exists and was not created by a proof",
            "Give another with --database, or drop it yourself if it is not needed.",
        )
    owner = _owner(mark)
    if owner in (Owner.RUNS, Owner.ELSEWHERE):
        using = "is using" if owner is Owner.RUNS else "may be using"
        drops = " ".join(f'DROP DATABASE "{name}";' for name in found)
        raise Refused(
            f"another proof {using} database {template}: {mark}",
            f"Wait for it, or if that process has ended or is something else: {drops}",
        )
    return drop(session, template)


def marked(session: Connection) -> tuple[Marked, ...]:
    """All databases that proofs created on this server and that still exist."""
    query: LiteralString = (
        "SELECT datname, shobj_description(oid, 'pg_database') FROM pg_database"
        " WHERE starts_with(shobj_description(oid, 'pg_database'), %s) ORDER BY datname"
    )
    with translated():
        return tuple(
            Marked(
                template=name,
                databases=tuple(_there(session, name)),
                owner=_owner(mark),
                mark=mark,
            )
            for name, mark in session.execute(query, [_MARK]).fetchall()
        )


def make_template(dsn: str, template: str, scale: int, program: Path) -> None:
    """Create, mark and fill the template, and `settle` it."""
    from psycopg import sql

    name = sql.Identifier(template)
    with connect(dsn) as session:
        # template0: it has no local additions, and no one is connected to it.
        session.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(name))
        session.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(name, _mark()))
    inside = in_database(dsn, template)
    initialise(inside, scale, program=program)
    settle(inside)


def settle(dsn: str) -> None:
    """Vacuum, analyze and checkpoint, so that no clean-up is left for the first reader."""
    with connect(dsn, own_search_path=True) as session:  # indexes may call functions of the user's
        # Freeze rows and set hint bits, or the first variant that reads pays for writing them.
        session.execute("VACUUM (FREEZE, ANALYZE)")
        session.execute("CHECKPOINT")


def fresh_copy(session: Connection, template: str) -> str:
    """Replace the working copy by a new one, copied file by file; return its name."""
    from psycopg import sql

    copy = copy_name(template)
    names = {"copy": sql.Identifier(copy), "template": sql.Identifier(template)}
    session.execute(sql.SQL("DROP DATABASE IF EXISTS {copy} WITH (FORCE)").format(**names))
    # The other strategy of 15 and later copies through the WAL, whose settings would matter.
    strategy = " STRATEGY FILE_COPY" if session.info.server_version >= 150000 else ""
    create: LiteralString = "CREATE DATABASE {copy} TEMPLATE {template}"
    session.execute(sql.SQL(create + strategy).format(**names))
    return copy


def drop(session: Connection, template: str) -> list[str]:
    """Drop the copy and then the template, whose mark covers both; return the names found.

    After a killed run, the server goes on copying; the copy cannot be seen until it is done.
    """
    from psycopg import sql

    mark = _comment(session, template)
    if mark:  # set the same mark again: this waits for the copying
        session.execute(
            sql.SQL("COMMENT ON DATABASE {} IS {}").format(sql.Identifier(template), mark)
        )
    found = _there(session, template)
    for name in found:
        session.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )
    return found


def _there(session: Connection, template: str) -> list[str]:
    """Which of the two databases exist, in the order in which they are dropped."""
    return [name for name in (copy_name(template), template) if _exists(session, name)]


def _mark() -> str:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return f"{_MARK}, pid {os.getpid()} on {socket.gethostname()} since {now}; may be dropped"


def _owner(mark: str) -> Owner:
    """Find the owner by the mark; a process id that is in use again counts as running."""
    words = mark.replace(",", "").split()
    try:
        pid, host = int(words[words.index("pid") + 1]), words[words.index("on") + 1]
    except (ValueError, IndexError):
        return Owner.ELSEWHERE
    if host != socket.gethostname():
        return Owner.ELSEWHERE
    if pid == os.getpid():
        return Owner.WE
    try:
        with suppress(PermissionError):  # it runs, as another user
            os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return Owner.GONE
    return Owner.RUNS


def _exists(session: Connection, name: str) -> bool:
    query = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = %s)"
    return bool(one_row(session, query, name)[0])


def _comment(session: Connection, name: str) -> str:
    query = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s"
    found = session.execute(query, [name]).fetchone()
    return (found[0] if found else None) or ""
