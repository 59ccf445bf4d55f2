"""PostgreSQL behind PgBouncer for benchmarks, with the pool that `mrtuner pods plan` writes."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import quote

from application_servers import free_ports

from mrtuner.postgres.binaries import find_binaries
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory
from mrtuner_pods.formats import Application, render


def missing() -> str | None:
    """Return why PgBouncer cannot run here; None if it can."""
    return None if shutil.which("pgbouncer") else "pgbouncer is not installed"


@contextmanager
def database(connections: int) -> Iterator[Cluster]:
    """Run a server that admits that many connections besides ours."""
    folder = scratch_directory("mrtuner-database-")
    settings = {"max_connections": connections + 10}  # and us
    cluster = Cluster.create(find_binaries(), folder / "cluster", settings)
    try:
        with cluster:
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def url(cluster: Cluster) -> str:
    """Return a URL that all frameworks can read; Rails takes no query, and no _ in the host."""
    socket = quote(str(cluster.directory), safe="").replace("_", "%5F")
    return f"postgresql://postgres@{socket}:{cluster.port}/postgres"


def settings(servers: int, clients: int) -> str:
    """Return the settings that `mrtuner pods plan` writes for the pooler."""
    return render(
        "pgbouncer",
        Application(
            title="a benchmark", server="gunicorn", pods=1, workers=1, threads=1, pool=1,
            cpu_request=1.0, cpu_limit=None, cpu_because="", memory=None, clients=clients,
            server_connections=servers,
        ),
    )  # fmt: skip


@contextmanager
def pgbouncer(cluster: Cluster, settings: str) -> Iterator[str]:
    """Run PgBouncer with these settings in front of the cluster; yield its connection string."""
    (port,) = free_ports(1)
    folder = scratch_directory("mrtuner-pgbouncer-")
    users = folder / "users"
    users.write_text('"postgres" ""\n')
    file = folder / "pgbouncer.ini"
    file.write_text(
        f"[databases]\n* = host={cluster.directory} port={cluster.port}\n"
        f"{settings}"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = trust\nauth_file = {users}\n"
    )
    for each in (users, file):
        each.chmod(0o644)
    user, group = (cluster.user.uid, cluster.user.gid) if cluster.user else (None, None)
    process = subprocess.Popen(
        ["pgbouncer", "-q", str(file)], stderr=subprocess.DEVNULL, user=user, group=group
    )
    try:
        _await(cluster, port)
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder)


def _await(cluster: Cluster, port: int) -> None:
    import psycopg

    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        with suppress(psycopg.Error):
            psycopg.connect(
                f"host=127.0.0.1 port={port} user=postgres dbname=postgres", connect_timeout=5
            ).close()
            return
        time.sleep(0.05)
    raise SystemExit(f"pgbouncer does not answer; the server's log: {cluster.log()}")
