"""PostgreSQL on the lab's machines: a primary, and a standby that streams from it."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from mrtuner.errors import ConnectError, MrTunerError
from mrtuner.failover.lab.machines import LabMachine
from mrtuner.postgres.binaries import Binaries
from mrtuner.postgres.cluster import SUPERUSER
from mrtuner.wording import last_line

PORT: Final = 5432
_PATIENCE: Final = 60.0
#: Small and fast: nothing outlives the lab, so nothing needs to be durable.
SETTINGS: Final = {
    "listen_addresses": "*",
    "fsync": "off",
    "shared_buffers": "16MB",
    "max_connections": "200",
    "min_wal_size": "4MB",
    "max_wal_size": "64MB",
    "wal_sender_timeout": "5s",
    "wal_receiver_timeout": "5s",
}
#: Only processes in our own namespaces can reach it.
ACCESS: Final = (
    "local all all trust",
    "host all all 10.77.0.0/16 trust",
    "host replication all 10.77.0.0/16 trust",
)


class LabServer:
    """A PostgreSQL server on a machine."""

    def __init__(self, machine: LabMachine, binaries: Binaries) -> None:
        self.machine = machine
        self._binaries = binaries
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.machine.directory / "data"

    @property
    def dsn(self) -> str:
        return f"host={self.machine.address} port={PORT} user={SUPERUSER} dbname=postgres"

    def create(self) -> None:
        """Create an empty primary."""
        self._run("initdb", "-D", self.data, "-U", SUPERUSER, "-E", "UTF8", "--locale=C",
                  "--no-sync", "--auth=trust", "--wal-segsize=1")  # fmt: skip
        (self.data / "pg_hba.conf").write_text("".join(f"{line}\n" for line in ACCESS))
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in SETTINGS.items())
            file.write(f"unix_socket_directories = '{self.machine.directory}'\n")

    def follow(self, primary: LabServer) -> None:
        """Create a standby that streams from `primary`."""
        self._run("pg_basebackup", "-D", self.data, "-d", primary.dsn, "-R", "-X", "stream",
                  "-c", "fast", "--no-sync")  # fmt: skip
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(f"unix_socket_directories = '{self.machine.directory}'\n")

    def start(self) -> None:
        """Start it and wait until it accepts connections."""
        with (self.machine.directory / "log").open("ab") as log:
            program = self._binaries.program("postgres")
            self._process = self.machine.start([program, "-D", self.data], log)
        end = time.monotonic() + _PATIENCE
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > end:
                said = (self.machine.directory / "log").read_text(errors="replace")
                raise ConnectError(
                    f"the server on machine {self.machine.name} did not start: {last_line(said)}",
                    "Report it with the output of --debug.",
                )
            time.sleep(0.05)

    def answers(self) -> bool:
        """Whether a query to its own address is answered."""
        import psycopg

        with suppress(psycopg.Error), psycopg.connect(self.dsn, connect_timeout=2):
            return True
        return False

    def promote(self) -> None:
        self._run("pg_ctl", "promote", "-w", "-D", self.data)

    def streams_to(self, standby: LabServer) -> bool:
        """Whether that standby is up to date and streaming."""
        import psycopg

        query = (
            "SELECT count(*) FROM pg_stat_replication "
            "WHERE client_addr = %s AND state = 'streaming'"
        )
        with suppress(psycopg.Error), psycopg.connect(self.dsn, connect_timeout=2) as conn:
            row = conn.execute(query, (standby.machine.address,)).fetchone()
            return bool(row and row[0])
        return False

    def crash(self) -> None:
        """Kill every process; the machine's kernel survives and refuses or resets."""
        self.machine.signal(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop every process; the machine's kernel keeps acknowledging."""
        self.machine.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.machine.signal(signal.SIGCONT)

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = self.machine.run(self._binaries.program(program), *arguments)
        if done.returncode:
            raise MrTunerError(
                f"{program} failed on machine {self.machine.name}: {last_line(done.stderr)}",
                "Check which commands were given; a new lab starts afresh.",
            )


def pair(
    primary: LabMachine, standby: LabMachine, binaries: Binaries
) -> tuple[LabServer, LabServer]:
    """A running primary and a running standby that has caught up."""
    first, second = LabServer(primary, binaries), LabServer(standby, binaries)
    first.create()
    first.start()
    second.follow(first)
    second.start()
    end = time.monotonic() + _PATIENCE
    while not first.streams_to(second):
        if time.monotonic() > end:
            raise ConnectError(
                "the standby does not receive WAL", "Report it with the output of --debug."
            )
        time.sleep(0.05)
    return first, second
