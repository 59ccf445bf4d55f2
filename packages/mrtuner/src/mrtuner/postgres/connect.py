"""A session with a server, or one clear reason why there is none.

libpq's rules apply: URI or key=value strings, PGHOST and related variables, service files,
~/.pgpass. psycopg's errors are translated here, at the edge. No message contains a password:
libpq puts none into its connection errors, and its errors about an invalid string (which may
quote part of a password) are shown without the quoted parts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mrtuner.errors import ConnectCause, ConnectError, MrTunerError, UsageError
from mrtuner.wording import enumerated

if TYPE_CHECKING:
    import psycopg
    from psycopg.abc import AdaptContext, Buffer
    from psycopg.adapt import Dumper, Loader

    Connection = psycopg.Connection[tuple[Any, ...]]

#: What of a connection string is a secret. Source: fe-connect.c, PQconninfoOptions: dispchar "*",
#: and the keys of SCRAM pass-through.
SECRETS: Final = frozenset({
    "oauth_client_secret", "password", "scram_client_key", "scram_server_key", "sslpassword",
})  # fmt: skip

OLDEST: Final = 130000
SUPPORTED: Final = "13 to 19"

_STRING_HINT: Final = (
    "Write postgresql://user@host:5432/dbname, and keep the password in PGPASSWORD or ~/.pgpass."
)
_POOLER_HINT: Final = (
    "Connect to the server itself, usually port 5432: through a pooler, settings and statistics "
    "may be those of different sessions."
)

#: An error of libpq, the server or a pooler; its cause; and the next step. The first match wins.
#: Messages that are not in English (lc_messages) match nothing and are shown with a plain hint.
_CAUSES: Final[tuple[tuple[str, ConnectCause, str], ...]] = (
    (
        r"unsupported startup parameter|pgbouncer|FATAL: +not allowed$",
        ConnectCause.POOLER,
        _POOLER_HINT,
    ),
    (
        r"(password|SASL) authentication failed|no password supplied|empty password",
        ConnectCause.PASSWORD,
        "Set PGPASSWORD or add the server to ~/.pgpass; check the user name too.",
    ),
    (
        r"no pg_hba\.conf entry|pg_hba\.conf rejects|authentication failed",
        ConnectCause.NOT_ADMITTED,
        "Add a line for this user, database and address to pg_hba.conf and reload, "
        "or connect as another user.",
    ),
    (
        r'database "[^"]*" does not exist|no such database',
        ConnectCause.NO_DATABASE,
        "Name an existing one, such as postgres, at the end of the connection string.",
    ),
    (
        r'role "[^"]*" does not exist|no such user',
        ConnectCause.NO_ROLE,
        "Name an existing one: postgresql://user@host/dbname.",
    ),
    *(
        (
            f'too many connections for {what} "',
            cause,
            f"Close some of its sessions, or raise its limit: ALTER {what.upper()} … CONNECTION "
            "LIMIT. A superuser is not held to it.",
        )
        for what, cause in (
            ("database", ConnectCause.DATABASE_FULL),
            ("role", ConnectCause.ROLE_FULL),
        )
    ),
    (
        r"too many clients|remaining connection slots|too many connections|no more connections",
        ConnectCause.NO_SLOT,
        "Close some sessions, or connect as a superuser: some slots are reserved for superusers.",
    ),
    (
        r"starting up|not yet accepting|not accepting connections|shutting down|in recovery mode",
        ConnectCause.STARTING,
        "Wait until it accepts connections, then run again.",
    ),
    (
        r"translate host name|resolve host|Name or service not known|nodename nor servname",
        ConnectCause.NO_HOST,
        "Check the host's name and the resolver.",
    ),
    (
        # Not a server's own error that ends in these words, whichever address gave it.
        r"(?s)\A(?!.*(?:FATAL|failed: (?!connection to|Connection refused|No such file)))"
        r".*(?:Connection refused|No such file or directory)",
        ConnectCause.REFUSED,
        "Check the host and port, and that the server is running.",
    ),
    (
        r"timeout expired|timed out|unreachable|No route to host",
        ConnectCause.TIMEOUT,
        "Check the address, the network and its firewalls (on a cloud: the security group).",
    ),
    (
        r"server closed the connection unexpectedly",
        ConnectCause.CLOSED,
        "Check that PostgreSQL is what listens there, and see its log.",
    ),
    (
        r'definition of service "[^"]*" not found|service file',
        ConnectCause.NO_SERVICE,
        "Check the service's name and its file, PGSERVICEFILE or ~/.pg_service.conf.",
    ),
    (
        r"SSL|TLS|certificate",
        ConnectCause.TLS,
        "Check sslmode and sslrootcert, and whether the server offers TLS.",
    ),
)
#: Values of target_session_attrs. Source: libpq's documentation, from 14 on.
SESSION_ATTRS: Final = (
    "any", "read-write", "read-only", "primary", "standby", "prefer-standby",
)  # fmt: skip
_UNKNOWN: Final = r'invalid (?:connection option|URI query parameter:) "([^"]*)"'
_BROKEN: Final = r"(invalid|bad) .*(value|option|port|integer)|could not match \d+ (port|host)"


def connect(
    dsn: str, *, timeout: int = 10, through_pooler: bool = False, console: bool = False,
    own_search_path: bool = False,
) -> Connection:  # fmt: skip
    """Open a session in autocommit; `with connect(dsn) as conn:` closes it.

    A name without a schema means PostgreSQL's own object, whatever others created under that name:
    search_path is empty, and numbers come with all their digits, whatever was set for the role.
    `own_search_path` leaves what the role has, for statements of the user's.
    So do the sessions of a pooler, which other clients use after us. In names and texts, what is
    not in the encoding becomes the replacement character: shared catalogs have those of every
    database. Unless the database is in UTF-8, the server sends such ones only within `any_bytes`.

    `timeout` [s] applies to each address tried; `connect_timeout`, of the string, a service or
    PGCONNECT_TIMEOUT, takes precedence. Raises UsageError for an invalid string and for a server
    older than 13; ConnectError, with the cause, for anything else that prevents a session with the
    server itself, including a pooler in between unless `through_pooler`. With `console`, only
    PgBouncer's own console is accepted; anything else raises UsageError.
    """
    import psycopg

    parameters = _patience(dsn, timeout) | given(dsn)
    parameters |= {"application_name": "mrtuner", "client_encoding": "UTF8"}
    try:
        conn = psycopg.connect(**parameters, autocommit=True, prepare_threshold=None)
    except psycopg.Error as error:
        raise _no_session(str(error), parameters) from None
    _replace_what_is_no_text(conn)
    try:
        if console:
            _require_console(conn)
        else:
            pooled = _examine(conn, parameters, through_pooler)
            if not pooled and not own_search_path:
                with translated():
                    conn.execute(
                        "SELECT pg_catalog.set_config('search_path', '', false), "
                        "pg_catalog.set_config('extra_float_digits', '1', false)"
                    )
    except BaseException:
        conn.close()
        raise
    return conn


#: Types that psycopg reads as texts; 0 is what it has no loader for, such as regclass.
_TEXTS: Final = (0, "text", "name", "varchar", "bpchar", '"char"')


def _replace_what_is_no_text(conn: Connection) -> None:
    reads, reads_json, writes = _adapters()
    for one in _TEXTS:
        conn.adapters.register_loader(one, reads)
    for one in ("json", "jsonb"):
        conn.adapters.register_loader(one, reads_json)
    conn.adapters.register_dumper(str, writes)


@cache  # psycopg remembers each class that it was given
def _adapters() -> tuple[type[Loader], type[Loader], type[Dumper]]:
    """How texts and JSON are read, and texts written, in the session's encoding of the moment."""
    from psycopg.adapt import Loader
    from psycopg.types.string import StrDumperUnknown

    class Text(Loader):
        def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
            super().__init__(oid, context)
            self.codec = codec(self.connection)

        def load(self, data: Buffer) -> Any:
            return str(data, self.codec, "replace")

    class Json(Text):
        def load(self, data: Buffer) -> Any:
            return json.loads(super().load(data))

    class Written(StrDumperUnknown):
        def dump(self, obj: str) -> Buffer | None:
            one = codec(self.connection)
            return super().dump(obj.encode(one, "replace").decode(one))

    return Text, Json, Written


def codec(conn: psycopg.BaseConnection[Any] | None) -> str:
    """Python's for the session's encoding; bytes in none are read as UTF-8, the likeliest."""
    found = conn.info.encoding if conn else "utf-8"
    return "utf-8" if found == "ascii" else found


#: With this encoding a database can hold any bytes, and the server does not convert them.
_ANY_BYTES: Final = "SQL_ASCII"
#: Encodings of databases that Python has no codec for. Source: psycopg, _encodings.py.
_UNKNOWN_HERE: Final = ("EUC_TW", "MULE_INTERNAL")


def accept_any_bytes(conn: Connection) -> bool:
    """Let the server send what it holds, without converting it; False if it does so already.

    Shared catalogs have names in the encoding of any database, which cannot always be converted.
    psycopg then writes statements in that encoding, or in ASCII for a SQL_ASCII database.
    """
    encoding = conn.info.parameter_status("server_encoding")
    wanted = _ANY_BYTES if encoding in _UNKNOWN_HERE else encoding
    if wanted is None or conn.info.parameter_status("client_encoding") in (wanted, _ANY_BYTES):
        return False
    conn.execute("SELECT pg_catalog.set_config('client_encoding', %s, false)", [wanted])
    return True


@contextmanager
def any_bytes(conn: Connection) -> Iterator[None]:
    """Read names and texts as they are: else, the server refuses what it cannot convert."""
    accepted = accept_any_bytes(conn)
    try:
        yield
    finally:
        if accepted and not conn.closed:
            conn.execute("SELECT pg_catalog.set_config('client_encoding', 'UTF8', false)")


#: Why a session ended, and the next step: by SQLSTATE, or by words where a dying server sends none.
#: Source: PostgreSQL documentation, Error Codes, classes 53 and 57; postgres.c, quickdie.
_LOST: Final[dict[str, tuple[str, str]]] = {
    "53100": ("the server's disk is full", "Free space on its volume, then run again."),
    "53200": ("the server ran out of memory", "See its worst case (mrtuner tune), or run again."),
    "57P01": ("an administrator ended the session, or the server shuts down",
              "The server may have restarted; run again."),
    "57P02": ("another process of the server crashed, so all sessions ended",
              "Wait for crash recovery, then run again."),
    "57P03": ("the server is starting, or recovers from a crash", "Wait for it, then run again."),
    "closed the connection unexpectedly": (
        "the server closed it without a reason, as after a crash, a signal or a lack of memory",
        "See the server's log: a process killed by signal 9 was probably out of memory; run again.",
    ),
}  # fmt: skip


_REFUSED: Final = "Check the role's permissions and the server's version."


def why_lost(error: Exception) -> tuple[str, str]:
    """Why the server ended a session, as far as it said, and the next step."""
    state, text = getattr(error, "sqlstate", None), str(error)
    known = _LOST.get(state or "") or next(
        (cause for words, cause in _LOST.items() if words in text), None
    )
    return known or (_first_line(text), "The server may have restarted; run again.")


def ended_session(error: psycopg.Error) -> bool:
    """Whether an error ended the session, not only its statement: by its class one cannot tell.

    Of what the server reports, that is FATAL and worse; libpq reports only broken connections.
    Source: PostgreSQL documentation, Error and Notice Message Fields.
    """
    import psycopg

    severity = error.diag.severity_nonlocalized or error.diag.severity
    if severity is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return severity != "ERROR"


@contextmanager
def translated() -> Iterator[None]:
    """Turn psycopg's errors inside the block into ConnectError; let our own pass."""
    import psycopg

    try:
        yield
    except psycopg.errors.QueryCanceled as error:
        raise ConnectError(
            f"the server cancelled a query: {_first_line(str(error))}",
            "Run it again; the role's statement_timeout may be too short for it.",
        ) from error
    except psycopg.Error as error:
        if ended_session(error):
            why, hint = why_lost(error)
            raise ConnectError(f"the connection to the server was lost: {why}", hint) from error
        _, hint = _LOST.get(error.sqlstate or "", ("", _REFUSED))
        raise ConnectError(
            f"the server refused a query: {_first_line(str(error))}", hint
        ) from error


def masked(dsn: str) -> str:
    """Return the connection string without its secrets, for display.

    >>> masked("postgresql://app:hunter2@db:5432/shop")
    'postgresql://app:***@db:5432/shop'
    >>> masked("host=db password='hunter 2' dbname=shop")
    'host=db password=*** dbname=shop'
    """
    shown = re.sub(r"^(\w+://[^:@/?]*):.*@", r"\1:***@", dsn, flags=re.DOTALL)
    value = r"[^&\s]*" if "://" in dsn else r"(?:'(?:\\.|[^'\\])*'?|(?:\\.|[^\s\\])*)"
    name = r"\b\w*(?:password|secret|_key)\s*=\s*"
    return re.sub(f"({name}){value}", r"\1***", shown, flags=re.IGNORECASE)


def address(dsn: str) -> str:
    """Return the host and port that a connection string leads to first: ``db:5432``.

    Raises what `resolved` raises.
    """
    known = resolved(dsn)
    host, port = (
        next((known[name].value for name in names if name in known), usual).partition(",")[0]
        for names, usual in ((("host", "hostaddr"), "localhost"), (("port",), "5432"))
    )
    return f"{'localhost' if host.startswith('/') else host}:{port}"


class Resolved(NamedTuple):
    """The value that libpq uses for a parameter, and who gave it."""

    value: str
    origin: str  # "connection string", "service NAME", or the name of a variable


def resolved(dsn: str) -> dict[str, Resolved]:
    """Return what libpq makes of a connection string: with services and PG* variables, no secrets.

    Parameters at libpq's own default are left out. Nothing is connected, and no name is looked up:
    libpq itself reads everything, and stops at one parameter that we make invalid.

    Raises UsageError for what libpq refuses, ConnectError for a service that it does not find.
    """
    from psycopg import pq
    from psycopg.conninfo import make_conninfo

    said, stop = given(dsn), _LATE[pq.version() >= 160000]
    stopped = pq.PGconn.connect_start(make_conninfo("", **said | {stop: _INVALID}).encode())
    complaint = stopped.error_message.decode(errors="replace")
    if f'"{_INVALID}"' not in complaint:
        raise _no_session(complaint, said)
    service = said.get("service") or os.environ.get("PGSERVICE")
    found = {}
    for option in stopped.info:
        name, variable = option.keyword.decode(), option.envvar.decode() if option.envvar else ""
        if not option.val or name == stop or option.dispchar == b"*":
            continue
        value = option.val.decode(errors="replace")
        if name in said:
            found[name] = Resolved(value, "connection string")
        elif variable and value == os.environ.get(variable):
            found[name] = Resolved(value, variable)
        elif service and option.val != option.compiled:
            found[name] = Resolved(value, f"service {service}")
    return found


#: What libpq checks after all else, and what it checks late before 16. Source: fe-connect.c,
#: connectOptions2 (pqConnectOptions2 from 17 on).
_LATE: Final = {True: "load_balance_hosts", False: "gssencmode"}
_INVALID: Final = "stop here"


#: A peer that does not acknowledge is given up within so long [s, ms]. Source: libpq, tcp(7).
_BRIEF: Final = {
    "keepalives_idle": 5, "keepalives_interval": 1, "keepalives_count": 5, "tcp_user_timeout": 5000,
}  # fmt: skip


def impatient(dsn: str) -> str:
    """Return the string for connections that end within seconds if the network stalls.

    What the string itself says of it takes precedence.
    """
    from psycopg.conninfo import make_conninfo

    return make_conninfo("", **_BRIEF | given(dsn))


def _patience(dsn: str, timeout: int) -> dict[str, Any]:
    """The time to wait. A service's is passed on, since psycopg does not look for it there."""
    known = resolved(dsn).get("connect_timeout")
    return {"connect_timeout": timeout if known is None else known.value}


def given(dsn: str) -> dict[str, Any]:
    """Return the parameters in the string itself; UsageError, without secrets, if there are none.

    What libpq takes from elsewhere is in `resolved`.
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        parameters = conninfo_to_dict(dsn)
    except psycopg.Error as error:
        raise _bad_string(str(error)) from None
    _refuse_spilt_password(dsn, parameters)
    return parameters


def _refuse_spilt_password(dsn: str, parameters: dict[str, Any]) -> None:
    """Refuse a URI password that spills into other parts by an unescaped @, : or /; echo none."""
    ports = str(parameters.get("port", "")).split(",")
    if not all(re.fullmatch(r"\d*", port) for port in ports):
        raise UsageError("the port in the connection string is not a number", _STRING_HINT)
    if "://" in dsn and any("@" in str(parameters.get(name, "")) for name in ("host", "dbname")):
        raise UsageError(
            "the connection string has more than one @",
            "Write @ as %40 in the password, or keep the password in PGPASSWORD or ~/.pgpass.",
        )


def _bad_string(reason: str) -> UsageError:
    """The error for a string that libpq refuses; only what is close to a parameter is quoted."""
    if unknown := re.search(_UNKNOWN, reason):
        from psycopg import pq

        known = [option.keyword.decode() for option in pq.Conninfo.get_defaults()]
        if close := get_close_matches(unknown[1], known, n=1, cutoff=0.75):
            return UsageError(
                f"cannot read the connection string: there is no parameter {unknown[1]}",
                f"Write {close[0]}, if that is what you mean.",
            )
    if "target_session_attrs" in reason:
        hint = f"Use {enumerated(SESSION_ATTRS, 'or')}."
        return UsageError("the connection string has an invalid target_session_attrs", hint)
    if reason.startswith('missing "="'):
        return UsageError(
            "cannot read the connection string: a word in it is neither a URI nor name=value",
            _STRING_HINT,
        )
    unquoted = re.sub(r"""(["'])[^"']*["']?""", "…", _first_line(reason))
    return UsageError(f"cannot read the connection string: {unquoted}", _STRING_HINT)


def _no_session(text: str, parameters: dict[str, Any]) -> MrTunerError:
    """Return the error for a failed connection, from libpq's messages."""
    detail = _first_line(text)
    if re.search(_BROKEN, detail):
        return _bad_string(detail)
    for pattern, cause, hint in _CAUSES:
        if re.search(pattern, text):
            what = f"{cause} (pgbouncer)" if cause is ConnectCause.POOLER else str(cause)
            return ConnectError(f"{what}: {detail}", hint, cause=cause)
    where = parameters.get("host", "the default host")
    return ConnectError(f"cannot connect to {where}: {detail}", "Check the connection string.")


def _first_line(text: str) -> str:
    """Return the first informative line, without libpq's preamble."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = lines[0] if lines else "no reason given"
    if line.startswith("Multiple connection attempts failed") and len(lines) > 1:
        line = lines[1].removeprefix("- ")
    return line.removeprefix("connection failed: ").removeprefix("connection is bad: ").rstrip(".")


def use_role_search_path(conn: Connection) -> None:
    """Find names as the role finds them, for the rest of the transaction: see `connect`."""
    conn.execute("SET LOCAL search_path TO DEFAULT")


def _examine(conn: Connection, parameters: dict[str, Any], through_pooler: bool) -> bool:
    """Raise unless this is a session with a supported server; return whether a pooler lends it."""
    with translated():
        pooler = _pooler(conn, parameters)
    if pooler and not through_pooler:
        raise ConnectError(
            f"{ConnectCause.POOLER} ({pooler})", _POOLER_HINT, cause=ConnectCause.POOLER
        )
    if conn.info.server_version < OLDEST:
        version = conn.info.parameter_status("server_version")
        raise UsageError(
            f"PostgreSQL {version} is too old", f"PostgreSQL {SUPPORTED} are supported."
        )
    return pooler is not None


def _pooler(conn: Connection, parameters: dict[str, Any]) -> str | None:
    """Name the pooler between us and the server, or return None.

    A server reports the process id of our backend at login (BackendKeyData) and in
    pg_backend_pid(). A pooler has to make up the first. So does Neon's proxy, which keeps
    one session per client unless the host's name contains -pooler.
    """
    if _is_console(conn):
        return "pgbouncer"
    row = conn.execute(
        "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('neon.timeline_id', true)"
    ).fetchone()
    pid, neon = row or (None, None)
    if pid == conn.info.backend_pid:
        return None
    if neon and "-pooler" not in conn.info.host:
        return None
    return "pgbouncer" if _has_console(parameters) else "of an unknown kind"


def _is_console(conn: Connection) -> bool:
    return "bouncer" in (conn.info.parameter_status("server_version") or "")


def _require_console(conn: Connection) -> None:
    if not _is_console(conn):
        raise UsageError(
            "what answers is not the console of PgBouncer",
            "Connect to its database pgbouncer, as a user of admin_users or stats_users.",
        )


def _has_console(parameters: dict[str, Any]) -> bool:
    """Whether the database pgbouncer is a pooler's console: it opens, or is closed to this user."""
    import psycopg

    try:
        with psycopg.connect(**{**parameters, "dbname": "pgbouncer"}, autocommit=True) as conn:
            return _is_console(conn)
    except psycopg.Error as error:
        return "not allowed" in str(error) or "no such user" in str(error)
