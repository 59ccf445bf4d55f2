"""A cluster managed by Patroni: machines a and b, and c, which only votes.

Patroni's own Raft holds the leader key, so no other service is needed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Final
from urllib.request import ProxyHandler, build_opener

from mrtuner.errors import ConnectError, MissingPart
from mrtuner.failover.lab.lab import Lab
from mrtuner.failover.lab.machines import LabMachine
from mrtuner.failover.lab.server import ACCESS, PORT, SETTINGS, LabServer
from mrtuner.failover.predict.timer_wheel import Band
from mrtuner.postgres.cluster import SUPERUSER

#: The shortest TTL that Patroni accepts [s].
TTL: Final = 20
LOOP_WAIT: Final = 1
_RETRY_TIMEOUT: Final = 3
_REST: Final = 8008
_RAFT: Final = 2222
_PATIENCE: Final = 90.0
#: The user's proxy cannot reach our namespaces.
_DIRECT: Final = build_opener(ProxyHandler({}))
_VOTER: Final = "from patroni.raft_controller import main; main()"


def require() -> None:
    """Raise MissingPart if Patroni or the Raft library it uses is not installed."""
    for module, package in (("patroni", "patroni"), ("pysyncobj", "pysyncobj")):
        if find_spec(module) is None:
            raise MissingPart(
                f"the Python package {package} is not installed",
                "Run: pip install 'patroni[raft]'.",
            )


def election() -> Band:
    """The time from the loss of the leader to the election of the next [s].

    The leader's key lives for the TTL after its last renewal, which is up to one loop old; the
    others check once per loop, ask one another, and promote. Source: Patroni's documentation of
    ttl, loop_wait.
    """
    return Band(TTL - LOOP_WAIT, TTL + LOOP_WAIT, TTL + 2 * LOOP_WAIT + _RETRY_TIMEOUT)


class PatroniLab(Lab):
    """The same lab, with an elected leader."""

    names = ("a", "b", "c")

    def _serve(self, machines: Mapping[str, LabMachine]) -> Mapping[str, LabServer]:
        for name in ("c", "a"):  # two make a quorum
            self._start(machines[name], list(machines.values()))
        self._await("a", "primary")
        self._start(machines["b"], list(machines.values()))
        self._await("b", "replica")
        return {name: LabServer(machines[name], self._binaries) for name in "ab"}

    def await_leader(self, name: str) -> None:
        """Wait until that machine's server is the leader."""
        self._await(name, "primary")

    def _start(self, machine: LabMachine, members: list[LabMachine]) -> None:
        config = machine.directory / "patroni.json"
        raft = _raft(machine, members)
        if machine.name == "c":
            config.write_text(json.dumps({"scope": "lab", "name": "c", "raft": raft}))
            command = [sys.executable, "-c", _VOTER, str(config)]
        else:
            config.write_text(json.dumps(self._config(machine, raft)))
            command = [sys.executable, "-m", "patroni", str(config)]
        with (machine.directory / "patroni.log").open("wb") as log:
            machine.start(command, log)

    def _config(self, machine: LabMachine, raft: dict[str, Any]) -> dict[str, Any]:
        where = f"{machine.address}:{_REST}"
        parameters = {**SETTINGS, "unix_socket_directories": str(machine.directory)}
        del parameters["listen_addresses"]
        times = {"ttl": TTL, "loop_wait": LOOP_WAIT, "retry_timeout": _RETRY_TIMEOUT}
        return {
            "scope": "lab",
            "name": machine.name,
            "restapi": {"listen": where, "connect_address": where},
            "raft": raft,
            "bootstrap": {"dcs": {**times, "maximum_lag_on_failover": 1 << 30},
                          "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "no-sync",
                                     {"wal-segsize": "1"}]},
            "postgresql": {
                "listen": f"*:{PORT}",
                "connect_address": f"{machine.address}:{PORT}",
                "data_dir": str(machine.directory / "data"),
                "bin_dir": str(self._binaries.directory),
                "pg_hba": ["host all all 127.0.0.1/32 trust", *ACCESS],
                "parameters": parameters,
                "authentication": {"superuser": {"username": SUPERUSER},
                                   "replication": {"username": SUPERUSER}},
            },
        }  # fmt: skip

    def _await(self, name: str, role: str) -> None:
        end = time.monotonic() + _PATIENCE
        url = f"http://{self._machine(name).address}:{_REST}/{role}"
        while time.monotonic() < end:
            with suppress(OSError), _DIRECT.open(url, timeout=1):
                return
            time.sleep(0.1)
        raise ConnectError(
            f"Patroni's server on machine {name} did not become a {role}",
            "Report it with the output of --debug.",
        )


def _raft(machine: LabMachine, members: list[LabMachine]) -> dict[str, Any]:
    return {
        "data_dir": str(machine.directory / "raft"),
        "self_addr": f"{machine.address}:{_RAFT}",
        "partner_addrs": [f"{each.address}:{_RAFT}" for each in members if each is not machine],
    }
