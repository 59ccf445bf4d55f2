"""PgBouncer between the clients and the moving address, configured as `settings` advises."""

from __future__ import annotations

import socket
import subprocess
import time
from contextlib import suppress
from shutil import which
from typing import Final

from mrtuner.errors import ConnectError, MissingPart
from mrtuner.failover.lab.machines import MOVING, SCRATCH, as_user
from mrtuner.failover.predict.kernel import local
from mrtuner.failover.predict.path import Path
from mrtuner.failover.settings.advice import settings

PORT: Final = 6432
_PATIENCE: Final = 20.0


def program() -> str:
    """The path of PgBouncer; MissingPart if it is not installed."""
    found = which("pgbouncer") or which("pgbouncer", path="/usr/sbin")
    if found is None:
        raise MissingPart(
            "the program pgbouncer is not installed", "Install the package pgbouncer."
        )
    return found


def start(within: float) -> None:
    """Start it on the client's own machine, and wait until it listens."""
    advice = settings("pgbouncer", within, local(), Path()).text
    SCRATCH.joinpath("pgbouncer.ini").write_text(
        f"[databases]\n* = host={MOVING} dbname=postgres user=postgres\n{advice}"
        f"listen_addr = 127.0.0.1\nlisten_port = {PORT}\nauth_type = any\nunix_socket_dir =\n"
    )
    with SCRATCH.joinpath("pgbouncer.log").open("wb") as log:
        subprocess.Popen(
            as_user([program(), "pgbouncer.ini"]),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=SCRATCH,
        )  # fmt: skip
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", PORT), 1):
            return
        time.sleep(0.05)
    said = SCRATCH.joinpath("pgbouncer.log").read_text(errors="replace").splitlines()
    raise ConnectError(
        f"PgBouncer did not start: {said[-1] if said else 'no output'}",
        "Report it with the output of --debug.",
    )
