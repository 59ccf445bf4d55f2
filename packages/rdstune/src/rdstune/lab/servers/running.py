"""The PostgreSQL servers behind lab instances.

Each instance has one server; the members of a cluster share one, which runs the writer's values.
A failover is a crash of that server, which returns after the outage at the same address: clients
see what they would see at AWS, and no data is lost, as with synchronous standbys. Read replicas
are separate servers and replicate nothing.

Each server listens on 127.0.0.1 with SCRAM. Its superuser is `rdsadmin`, as on RDS; the master
user is an ordinary role in `rds_superuser`.
"""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mrtuner import files
from mrtuner.bench.server import guard
from mrtuner.errors import ConnectError, MissingPart, MrTunerError
from mrtuner.postgres.binaries import Binaries, find_binaries
from mrtuner.postgres.cluster import SUPERUSER, Cluster, StopMode
from mrtuner.postgres.server_user import hand_over, scratch_directory
from rdstune.lab.servers import settings
from rdstune.lab.world import Instance

_ADMIN: Final = "rdsadmin"
_FILE: Final = "lab.conf"
_SMALLEST_BUFFERS: Final = 16  # pages of 8 kB; guc_tables.c
_RELOAD_SECONDS: Final = 5.0
_PACKAGES: Final = (
    "/usr/lib/postgresql/{}/bin",
    "/usr/pgsql-{}/bin",
    "/opt/homebrew/opt/postgresql@{}/bin",
)


@dataclass(slots=True)
class InstanceServer:
    """A server, and how it differs from its group."""

    cluster: Cluster
    cleanup: ExitStack  # removes it
    lock: threading.RLock = field(default_factory=threading.RLock)
    aside: dict[str, str] = field(default_factory=dict)
    pages: int | None = None  # shared buffers, where fewer than requested are available
    takes: dict[tuple[str, str], bool] = field(default_factory=dict)  # words that builds may lack
    peopled: bool = False  # whether its roles have been created
    removed: bool = False


class Servers:
    """All servers of a lab. `programs` names installations by major version."""

    def __init__(self, programs: Mapping[int, Path] | None = None) -> None:
        self._programs = dict(programs or {})
        self._found: dict[int, Binaries] = {}
        self._servers: dict[str, InstanceServer] = {}
        self._lock = threading.Lock()
        self._closed = False

    def offers(self, major: int) -> Binaries:
        """Return the programs of a major version; MissingPart when there are none here."""
        if major not in self._found:
            self._found[major] = _find(major, self._programs.get(major))
        return self._found[major]

    def start(self, instance: Instance, values: Mapping[str, str]) -> None:
        """Start the instance's server with these values; ConnectError when it does not start."""
        server = self._server(instance)
        with server.lock:
            if server.removed:
                return
            if server.cluster.running():
                server.cluster.stop()
            _start(server, values)
            if not server.peopled:
                _people(server.cluster, instance)
                server.peopled = True

    def stop(self, instance: Instance, mode: StopMode = "fast") -> None:
        server = self._servers.get(_key(instance))
        if server is not None:
            with server.lock:
                server.cluster.stop(mode)

    def reload(self, instance: Instance, values: Mapping[str, str]) -> bool:
        """Apply dynamic values; return False when the server refuses one."""
        import psycopg

        server = self._servers.get(_key(instance))
        if server is None or not server.cluster.running():
            return True
        with server.lock:
            _configure(server, values)
            try:
                return _reloaded(server.cluster)
            except psycopg.OperationalError:  # it has gone down; its next start reads the file
                return True

    def address(self, instance: Instance) -> tuple[str, int]:
        """Return where the server listens, running or not."""
        return "127.0.0.1", self._server(instance).cluster.port

    def dsn(self, instance: Instance) -> str:
        """Return a conninfo for the master user; the password is in a separate file."""
        cluster = self._server(instance).cluster
        passfile = cluster.directory / "passfile"
        line = f"*:*:*:{instance.username}:{instance.password}\n"
        if not passfile.exists() or passfile.read_text(encoding="utf-8") != line:
            files.replace(passfile, line, mode=0o600, durable=False)
        database = instance.database or "postgres"
        return f"{cluster.dsn(database, user=instance.username, tcp=True)} passfile={passfile}"

    def aside(self, instance: Instance) -> dict[str, str]:
        """Return the parameters whose value on the server is not the group's, and why."""
        return dict(self._server(instance).aside)

    def remove(self, instance: Instance) -> None:
        with self._lock:
            server = self._servers.pop(_key(instance), None)
        if server is not None:
            self._remove(server)

    def clear(self) -> None:
        with self._lock:
            servers = list(self._servers.values())
            self._servers.clear()
        for server in servers:
            self._remove(server)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self.clear()

    def _remove(self, server: InstanceServer) -> None:
        with server.lock:
            server.removed = True
            server.cleanup.close()

    def _server(self, instance: Instance) -> InstanceServer:
        with self._lock:
            key = _key(instance)
            if self._closed:
                raise ConnectError("the lab has ended")
            if key not in self._servers:
                self._servers[key] = self._new(instance)
            return self._servers[key]

    def _new(self, instance: Instance) -> InstanceServer:
        """Create a server that is gone even if the lab is killed."""
        binaries = self.offers(instance.major)
        with ExitStack() as stack:
            place = scratch_directory("mrtuner-lab-")
            stack.callback(shutil.rmtree, place, ignore_errors=True)
            stack.enter_context(guard.directory_removed(place))
            password = secrets.token_urlsafe(24)
            cluster = Cluster.create(binaries, place / "pg", listen=True, password=password)
            stack.enter_context(guard.server_stopped(cluster.data))
            stack.callback(cluster.remove)
            cluster.configure({"include": _FILE})
            cleanup = stack.pop_all()
        return InstanceServer(cluster, cleanup)


def _find(major: int, named: Path | None) -> Binaries:
    if named is not None:
        return find_binaries(named)
    for place in (None, *(Path(text.format(major)) for text in _PACKAGES)):
        try:
            found = find_binaries(place)
        except MrTunerError:
            continue
        if found.major == major:
            return found
    raise MissingPart(
        f"no PostgreSQL {major} server on this machine",
        "Use an installed major version, or give the bin directory of an installation.",
    )


def _start(server: InstanceServer, values: Mapping[str, str]) -> None:
    """Start; halve the shared buffers as often as needed until the machine can reserve them."""
    server.pages = None
    pages = _configure(server, values)
    while True:
        try:
            server.cluster.start()
        except ConnectError as error:
            if pages <= _SMALLEST_BUFFERS or "shared memory" not in error.message:
                raise
            server.pages = pages = pages // 2
            _configure(server, values)
        else:
            return


def _configure(server: InstanceServer, values: Mapping[str, str]) -> int:
    """Write the server's file; return the shared buffers in pages as written, 0 if not set."""
    cluster = server.cluster
    result = settings.arranged(values, cluster.binaries.major, _libraries(cluster.binaries))
    result.settings["port"] = str(cluster.port)
    if server.pages is not None:
        result.less_buffers(server.pages)
    for name, word in settings.of_a_build(result, cluster.binaries.major):
        if not _takes(server, name, word):
            result.lacking(name)
    server.aside = result.aside
    path = cluster.data / _FILE
    files.replace(path, result.text(), mode=0o600, durable=False)
    hand_over(path, cluster.user)
    written = result.settings.get("shared_buffers", "")
    return int(written) if written.isdigit() else 0


def _takes(server: InstanceServer, name: str, word: str) -> bool:
    """Whether this build supports a word, such as lz4; runs the program once per word."""
    if (name, word) not in server.takes:
        cluster = server.cluster
        asked = cluster.run("postgres", "-D", cluster.data, "-C", name, "-c", f"{name}={word}")
        server.takes[name, word] = f'invalid value for parameter "{name}"' not in asked.stderr
    return server.takes[name, word]


def _reloaded(cluster: Cluster) -> bool:
    """Reload and wait for it; return False when a line of our file was refused."""
    with _admin(cluster, _ADMIN) as conn:
        before = conn.execute("select pg_conf_load_time()").fetchone()
        conn.execute("select pg_reload_conf()")
        limit = time.monotonic() + _RELOAD_SECONDS
        while conn.execute("select pg_conf_load_time()").fetchone() == before:
            if time.monotonic() > limit:
                return False  # a file with an error is not loaded at all
            time.sleep(0.005)
        refused = conn.execute(
            "select count(*) from pg_file_settings where error is not null and sourcefile like %s",
            [f"%/{_FILE}"],
        ).fetchone()
        return refused is not None and refused[0] == 0


def _people(cluster: Cluster, instance: Instance) -> None:
    """Create RDS's roles: rdsadmin is the superuser, the master user is in rds_superuser."""
    from psycopg import sql

    with _admin(cluster, SUPERUSER) as conn:
        conn.execute("create role lab_makeshift superuser login")
    with _admin(cluster, "lab_makeshift") as conn:
        conn.execute(sql.SQL("alter role {} rename to rdsadmin").format(sql.Identifier(SUPERUSER)))
    with _admin(cluster, _ADMIN) as conn:
        conn.execute("drop role lab_makeshift")
        conn.execute("create role rds_superuser")
        conn.execute("grant pg_monitor, pg_signal_backend to rds_superuser with admin option")
        master = sql.Identifier(instance.username)
        conn.execute(
            sql.SQL(
                "create role {} login createdb createrole in role rds_superuser password {}"
            ).format(master, sql.Literal(instance.password))
        )
        for database in dict.fromkeys(("postgres", instance.database or "postgres")):
            name = sql.Identifier(database)
            if database != "postgres":
                conn.execute(sql.SQL("create database {}").format(name))
            conn.execute(sql.SQL("alter database {} owner to {}").format(name, master))


def _admin(cluster: Cluster, user: str) -> Any:
    import psycopg

    return psycopg.connect(cluster.dsn(user=user), autocommit=True)


def _libraries(binaries: Binaries) -> set[str]:
    root = binaries.directory.parent / "lib"
    return {path.stem for path in (*root.glob("*.so"), *root.glob("postgresql/*.so"))}


def _key(instance: Instance) -> str:
    return instance.cluster or instance.arn
