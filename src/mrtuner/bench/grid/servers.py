"""A variant made a running server. Variants that can share a data directory do: the same files.

Only one server runs at a time. What differs between variants of one site is a file of settings,
the address they are reached by, and the memory group they are started in.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final, Protocol

from mrtuner.bench import instance
from mrtuner.bench.grid.plan import PLACEMENT, GridPlan, Variant
from mrtuner.errors import BadValue, ConnectError, MrTunerError
from mrtuner.postgres.cluster import Binaries, Cluster, find_binaries, scratch_directory
from mrtuner.postgres.connect import connect
from mrtuner.units import Bytes, GiB

_FILE: Final = "mrtuner-variant.conf"
_START_S: Final = 120.0
_STOP_S: Final = 60.0
_DISK: Final = Bytes(20 * GiB)


class Server(Protocol):
    """The server of one variant. `site` names the data that it shares with others."""

    @property
    def site(self) -> str: ...

    @property
    def dsn(self) -> str: ...

    @property
    def data(self) -> Path | None:
        """Its data directory, where that is ours to see."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


@contextmanager
def servers(plan: GridPlan, embedded: Path | None = None) -> Iterator[Mapping[str, Server]]:
    """The server of every variant, stopped; all that was made for them goes at the end.

    `embedded` is the installation of variants that name none.
    """
    with ExitStack() as stack:
        sites: dict[str, _Site] = {}
        made: dict[str, Server] = {}
        for variant in plan.variants:
            if variant.start is not None:
                server: Server = Commanded(variant)
            else:
                key = _site_key(variant)
                if key not in sites:
                    sites[key] = _site(stack, key, variant, embedded)
                server = Embedded(variant, sites[key], _group(stack, variant))
            stack.callback(server.stop)
            made[variant.name] = server
        yield made


@dataclass(frozen=True, slots=True)
class _Site:
    key: str
    cluster: Cluster
    password: str
    volume: instance.Volume | None


def _site_key(variant: Variant) -> str:
    """Variants of one installation and one volume are compared on the very same files."""
    return f"{variant.server_bin or 'embedded'} {variant.iops or ''} {variant.disk or ''}".strip()


def _site(stack: ExitStack, key: str, variant: Variant, embedded: Path | None) -> _Site:
    binaries = _binaries(variant, embedded)
    volume, base = None, None
    if variant.iops is not None or variant.disk is not None:
        volume = stack.enter_context(instance.volume(Bytes(variant.disk or _DISK)))
        base = volume.place / "server"
    password = secrets.token_urlsafe(24)
    cluster = Cluster.create(
        binaries, base or scratch_directory(), {"log_checkpoints": "on"}, listen=True,
        password=password,
    )  # fmt: skip
    stack.callback(cluster.remove)
    cluster.configure({"include": _FILE})
    if volume is not None and variant.iops is not None:
        volume.throttle(variant.iops)
    return _Site(key, cluster, password, volume)


def _binaries(variant: Variant, embedded: Path | None) -> Binaries:
    return find_binaries(Path(variant.server_bin) if variant.server_bin else embedded)


def _group(stack: ExitStack, variant: Variant) -> Path | None:
    if variant.memory is None:
        return None
    return stack.enter_context(instance.memory_limit(variant.name, Bytes(variant.memory)))


class Embedded:
    """A variant on a cluster of ours."""

    def __init__(self, variant: Variant, site: _Site, group: Path | None) -> None:
        self.variant, self._site, self.group = variant, site, group
        self.text = settings_text(variant)

    @property
    def site(self) -> str:
        return self._site.key

    @property
    def dsn(self) -> str:
        if self.variant.connect == "tcp":
            return f"{self._site.cluster.dsn(tcp=True)} password={self._site.password}"
        return self._site.cluster.dsn()

    @property
    def data(self) -> Path | None:
        return self._site.cluster.data

    def start(self) -> None:
        """Put the variant's settings in force by a start; ConnectError with the log's reason."""
        file = self._site.cluster.data / _FILE
        file.write_text(self.text, encoding="utf-8")
        file.chmod(0o644)
        with instance.inside(self.group):
            self._site.cluster.start()

    def stop(self) -> None:
        self._site.cluster.stop()


class Commanded:
    """A server that somebody else's command starts; it keeps its data between two starts."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.process: subprocess.Popen[bytes] | None = None
        self.output: IO[bytes] | None = None

    @property
    def site(self) -> str:
        return f"command {self.variant.name}"

    @property
    def dsn(self) -> str:
        return self.variant.dsn or ""

    @property
    def data(self) -> Path | None:
        return None

    def start(self) -> None:
        """Run the command and wait until the server answers; ConnectError if it does not."""
        self.output = TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self.process = subprocess.Popen(
            shlex.split(self.variant.start or ""), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        deadline = time.monotonic() + _START_S
        while not self._answers():
            if self.process.poll() not in (None, 0) or time.monotonic() > deadline:
                said = self._said()
                self.stop()
                raise ConnectError(
                    f"the command of variant {self.variant.name} started no server: {said}",
                    "Run it by hand; it has to stay, or to end with 0 once the server runs.",
                )
            time.sleep(0.1)

    def stop(self) -> None:
        """By the variant's own command, else by an interrupt; killed if it does not go."""
        if self.process is None:
            return
        if self.variant.stop is not None:
            subprocess.run(shlex.split(self.variant.stop), check=False, capture_output=True)
        else:
            self._signal(signal.SIGINT)
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self.process.wait()
        if self.output is not None:
            self.output.close()
        self.process = None

    def _answers(self) -> bool:
        try:
            connect(self.dsn, timeout=2).close()
        except MrTunerError:
            return False
        return True

    def _said(self) -> str:
        if self.output is None:
            return "nothing"
        self.output.seek(0)
        lines = self.output.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def _signal(self, number: int) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)


def settings_text(variant: Variant) -> str:
    """What goes into the variant's file: its conf without what says where to lie, its settings."""
    lines = [line for line in (variant.conf or "").splitlines() if not _misplaced(line, variant)]
    lines += [f"{name} = '{_quoted(value)}'" for name, value in variant.settings.items()]
    return "".join(f"{line}\n" for line in lines)


def _misplaced(line: str, variant: Variant) -> bool:
    name = re.match(r"\s*([\w.]+)", line)
    if name is None:
        return False
    if name[1].lower().startswith("include"):
        raise BadValue(
            f"the file of variant {variant.name} includes another", "Put all settings in one file."
        )
    return name[1].lower() in PLACEMENT


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")
