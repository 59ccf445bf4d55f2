"""A cluster of two managed by Patroni with Raft as its store, so nothing else has to run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from conftest import PASSWORD

from mrtuner.postgres.server_user import scratch_directory, server_user
from servers import binaries

HOST = "127.0.0.1"
NAMES = ("one", "two")


class PatroniCluster:
    """A context manager: the cluster runs inside the block and is removed at its end."""

    def __init__(self) -> None:
        self.directory = scratch_directory()
        ports = iter(_free_ports(3 * len(NAMES)))
        self.api = {name: next(ports) for name in NAMES}
        self.postgres = {name: next(ports) for name in NAMES}
        self.raft = {name: next(ports) for name in NAMES}
        self.children: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.api['one']}"

    def dsn(self) -> str:
        """A connection string to both, which finds the writable one; it has no password."""
        ports = ",".join(str(port) for port in self.postgres.values())
        return (
            f"host={HOST},{HOST} port={ports} user=postgres dbname=postgres connect_timeout=3 "
            "target_session_attrs=read-write"
        )

    def __enter__(self) -> PatroniCluster:
        for name in NAMES:
            self._start(name)
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for child in self.children:
            child.terminate()  # Patroni stops its server
        for child in self.children:
            with suppress(subprocess.TimeoutExpired):
                child.wait(15)
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def members(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.url}/cluster", timeout=2) as answer:
            found: list[dict[str, Any]] = json.load(answer)["members"]
        return found

    @contextmanager
    def tagged(self, **tags: str) -> Iterator[None]:
        """Members carry these tags inside the block."""
        self._configure(tags)
        try:
            yield
        finally:
            self._configure({})

    def _configure(self, tags: Mapping[str, str]) -> None:
        for name, child in zip(NAMES, self.children, strict=True):
            self._write(name, tags)
            child.send_signal(signal.SIGHUP)
        for _ in range(300):
            if all(one.get("tags", {}) == tags for one in self.members()):
                return
            time.sleep(0.1)
        raise AssertionError(f"the tags are not taken: {self.log()}")

    def log(self) -> str:
        return "\n".join(path.read_text()[-2000:] for path in self.directory.glob("*.log"))

    def _write(self, name: str, tags: Mapping[str, str]) -> Path:
        path = self.directory / f"{name}.yml"
        path.write_text(yaml.safe_dump(self._configuration(name, tags)), encoding="utf-8")
        user = server_user()
        if user is not None:
            os.chown(path, user.uid, user.gid)
        path.chmod(0o600)
        return path

    def _start(self, name: str) -> None:
        path = self._write(name, {})
        with (self.directory / f"{name}.log").open("wb") as log:
            self.children.append(
                subprocess.Popen(
                    [*_as_the_servers_user(), sys.executable, "-m", "patroni", str(path)],
                    cwd=self.directory, stdout=log, stderr=log, start_new_session=True,
                    env={**os.environ, "HOME": str(self.directory)},
                )
            )  # fmt: skip

    def _configuration(self, name: str, tags: Mapping[str, str]) -> dict[str, Any]:
        partners = [f"{HOST}:{port}" for other, port in self.raft.items() if other != name]
        login = {"username": "postgres", "password": PASSWORD}
        return {
            "scope": "shop",
            "name": name,
            "restapi": {
                "listen": f"{HOST}:{self.api[name]}",
                "authentication": {"username": "me", "password": "s3cret"},
            },
            "raft": {
                "data_dir": str(self.directory / f"raft-{name}"),
                "self_addr": f"{HOST}:{self.raft[name]}",
                "partner_addrs": partners,
            },
            "bootstrap": {
                "dcs": {"ttl": 20, "loop_wait": 1, "retry_timeout": 3},
                "initdb": ["no-sync", {"encoding": "UTF8"}, {"locale": "C"}],
            },
            "postgresql": {
                "listen": f"{HOST}:{self.postgres[name]}",
                "data_dir": str(self.directory / f"data-{name}"),
                "bin_dir": str(binaries(18).directory),
                "pgpass": str(self.directory / f"pgpass-{name}"),
                "authentication": {"superuser": login, "replication": login},
                "parameters": {"unix_socket_directories": "", "fsync": "off"},
                "pg_hba": [f"host {what} all {HOST}/32 scram-sha-256"
                           for what in ("all", "replication")],
            },
            "tags": dict(tags),
        }  # fmt: skip

    def _wait(self) -> None:
        """Wait until one member leads and the other streams."""
        for _ in range(600):
            if any(child.poll() is not None for child in self.children):
                raise AssertionError(f"Patroni has ended: {self.log()}")
            with suppress(OSError, KeyError):
                states = {one["state"] for one in self.members()}
                if len(self.members()) == len(NAMES) and states == {"running", "streaming"}:
                    return
            time.sleep(0.1)
        raise AssertionError(f"the cluster does not come up: {self.log()}")


def _as_the_servers_user() -> list[str]:
    """A command prefix, as PostgreSQL refuses root; the other user can still read root's Python."""
    user = server_user()
    if user is None:
        return []
    read = "+dac_read_search"
    return [
        "setpriv", f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups",
        f"--inh-caps={read}", f"--ambient-caps={read}", "--",
    ]  # fmt: skip


def _free_ports(number: int) -> list[int]:
    probes = [socket.create_server((HOST, 0)) for _ in range(number)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports
