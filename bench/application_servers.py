"""Application servers for benchmarks, and a client that loads them open-loop.

A server is data: a command, and the configuration that `mrtuner pods plan` writes for it.
Benchmarks skip servers that are not installed, and say why. Debian has Puma and unicorn:

    apt-get install puma unicorn ruby-pg pgbouncer
"""

from __future__ import annotations

import asyncio
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, TypeVar

from mrtuner_pods.formats import Application, render
from mrtuner_pods.planning.servers import Server
from mrtuner_pods.waiting.queues import Layout
from mrtuner_pods.waiting.routing import Routing, router
from mrtuner_pods.waiting.stages import Work

APPS = Path(__file__).parent / "waiting_apps"
#: Connections that wait to be accepted are part of the load: none may be refused.
_BACKLOG = 2048
_START = 60.0  # [s] until a server must answer
_WAVES = 12  # of requests that keep every server busy
_Result = TypeVar("_Result")


@dataclass(frozen=True, kw_only=True)
class Program:
    """How a server is started; {file} is its configuration, {folder} and {app} what it serves."""

    command: tuple[str, ...]
    app: str
    format: str  # of `mrtuner pods plan`
    listen: str  # {port} and {backlog} are filled in; a line of the configuration
    needs: str  # a program
    folder: Path = APPS


_GUNICORN = Program(
    command=(sys.executable, "-m", "gunicorn", "--config", "{file}", "--chdir", "{folder}",
             "--log-level", "error", "{app}"),
    app="app:app",
    format="gunicorn",
    listen='bind = "127.0.0.1:{port}"\nbacklog = {backlog}\n',
    needs=sys.executable,
)  # fmt: skip
_UVICORN = Program(
    command=(sys.executable, "{file}"),
    app="app_async:app",
    format="",
    listen="import uvicorn\n"
    'if __name__ == "__main__":\n'
    f"    uvicorn.run('app_async:app', app_dir={str(APPS)!r}, workers=workers,"
    " host='127.0.0.1', port={port}, backlog={backlog}, log_level='error')\n",
    needs=sys.executable,
)
_PUMA = Program(
    command=("puma", "-q", "-e", "none", "-C", "{file}", "{folder}/{app}"),
    app="config.ru",
    format="puma",
    listen='bind "tcp://127.0.0.1:{port}?backlog={backlog}"\n',
    needs="puma",
)
PROGRAMS: Mapping[str, Program] = {
    "uvicorn": _UVICORN,
    Server.GUNICORN: _GUNICORN,
    Server.GTHREAD: _GUNICORN,
    Server.UNICORN: Program(
        command=("unicorn", "-E", "none", "-c", "{file}", "{folder}/{app}"),
        app="config.ru",
        format="unicorn",
        listen='listen "127.0.0.1:{port}", backlog: {backlog}\nlogger Logger.new(File::NULL)\n',
        needs="unicorn",
    ),
    Server.PUMA: _PUMA,
    Server.PUMA_6: _PUMA,
}


def missing(server: str) -> str | None:
    """Return why a server cannot run here; None if it can."""
    needs = PROGRAMS[server].needs
    return None if shutil.which(needs) else f"{needs} is not installed"


def installed_puma() -> Server:
    """Return which kind of Puma is installed, by its version; 5 or 6 if none is."""
    if missing(Server.PUMA):
        return Server.PUMA_6
    told = subprocess.run(["puma", "--version"], capture_output=True, text=True, check=True)
    major = re.search(r"version (\d+)", told.stdout)
    assert major is not None, told.stdout
    return Server.PUMA if int(major[1]) >= 7 else Server.PUMA_6


def configuration(server: str, layout: Layout, pool: int | None = None) -> str:
    """Return the configuration that `mrtuner pods plan` writes; it does not plan for uvicorn."""
    if not isinstance(server, Server):
        return f"workers = {layout.workers}\n"
    return render(
        PROGRAMS[server].format,
        Application(
            title="a benchmark", server=server, pods=layout.pods, workers=layout.workers,
            threads=layout.threads, pool=pool or layout.threads, cpu_request=1.0, cpu_limit=None,
            cpu_because="", memory=None, clients=layout.slots, server_connections=None,
        ),
    )  # fmt: skip


@contextmanager
def pods(
    server: str,
    text: str,
    count: int,
    *,
    quota: float | None = None,
    environment: Mapping[str, str] | None = None,
    serving: tuple[Path, str] | None = None,
) -> Iterator[list[int]]:
    """Run `count` servers with that configuration; yield their ports once all answer.

    They serve the stand-in, or `serving`: a folder, and the application's name in it.
    """
    program = PROGRAMS[server]
    if serving is not None:
        program = replace(program, folder=serving[0], app=serving[1])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mrtuner-pods-")))
        ports = free_ports(count)
        for port in ports:
            group = stack.enter_context(quota_group(quota, port)) if quota else None
            stack.enter_context(_one(program, text, folder, port, group, environment or {}))
        yield ports


@contextmanager
def _one(
    program: Program, text: str, folder: Path, port: int, group: Path | None,
    environment: Mapping[str, str],
) -> Iterator[None]:  # fmt: skip
    file = folder / f"{port}.{'rb' if program.format in {'puma', 'unicorn'} else 'py'}"
    file.write_text(text + program.listen.format(port=port, backlog=_BACKLOG))
    names = {"{file}": str(file), "{folder}": str(program.folder), "{app}": program.app}
    command = list(program.command)
    for name, value in names.items():
        command = [part.replace(name, value) for part in command]
    if group is not None:
        enter = 'echo $$ > "$0" && exec "$@"'
        command = ["sh", "-c", enter, str(group / "cgroup.procs"), *command]
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, cwd=folder
    )
    try:
        _await_port(port, process)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def quota_group(quota: float, port: int) -> Iterator[Path]:
    """A control group of version 1 with that many CPUs; needs root."""
    folder = group_of(port)
    folder.mkdir()
    try:
        (folder / "cpu.cfs_quota_us").write_text(str(round(quota * 100_000)))
        yield folder
    finally:
        _await_empty(folder)
        folder.rmdir()


def group_of(port: int) -> Path:
    """Return the control group of the server on that port if it has a quota."""
    own = re.search(r"^\d+:cpu(?:,cpuacct)?:(.*)$", Path("/proc/self/cgroup").read_text(), re.M)
    if own is None:
        sys.exit("no version 1 hierarchy of cpu here")
    return Path("/sys/fs/cgroup/cpu", own[1].strip("/"), f"mrtuner-{os.getpid()}-{port}")


def cpu_used(group: Path) -> float:
    """Return the CPU time that a group's threads have used so far [s]."""
    threads = (group / "tasks").read_text().split()
    return sum(int(Path(f"/proc/{one}/schedstat").read_text().split()[0]) for one in threads) / 1e9


def renewals(groups: Sequence[Path]) -> list[float]:
    """Return when each group's quota is renewed, as it is every 100 ms [s of time.monotonic].

    The kernel's timer runs for one period after the last use, so something must have run there
    just before.
    """
    before = {group: _periods(group) for group in groups}
    found: dict[Path, float] = {}
    limit = time.monotonic() + 1
    while len(found) < len(groups):
        if time.monotonic() > limit:
            sys.exit("a quota is not renewed: nothing ran in its group")
        for group in groups:
            if group not in found and _periods(group) > before[group]:
                found[group] = time.monotonic()
    return [found[group] for group in groups]


def _periods(group: Path) -> int:
    return int((group / "cpu.stat").read_text().split()[1])


def _await_empty(group: Path) -> None:
    limit = time.monotonic() + 30
    while (group / "cgroup.procs").read_text() and time.monotonic() < limit:
        time.sleep(0.05)


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + _START
    while process.poll() is None and time.monotonic() < limit:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    sys.exit(f"{process.args!r} does not answer")


def free_ports(count: int) -> list[int]:
    """Return `count` ports that are free now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@dataclass(frozen=True, kw_only=True)
class Served:
    """The result of a request; times in seconds."""

    sent: float  # how much later than intended
    took: float  # from the intended start to the last byte
    pod: int
    worker: str  # its process


def run_precisely(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Like asyncio.run, but timers are not rounded up to whole milliseconds, as with epoll."""
    loop = lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())  # noqa: E731
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(work)


class Client:
    """Sends each request at its time, to the pod that the router chooses then."""

    def __init__(self, ports: Sequence[int], routing: Routing, work: Work, chance: Random) -> None:
        self._ports, self._work = ports, work
        self._busy = [0] * len(ports)
        self._choose = router(routing, len(ports), chance)
        self.began = 0.0  # when the load did [s of time.monotonic]

    async def run(self, arriving: Sequence[float], times: Sequence[float]) -> list[Served]:
        """Send a request at each arrival, of those lengths; none waits for another's answer."""
        loop = asyncio.get_running_loop()
        began, tasks = loop.time() + 0.1, []
        self.began = began
        for arrival, length in zip(arriving, times, strict=True):
            due = began + arrival
            if (wait := due - loop.time()) > 0:
                await asyncio.sleep(wait)
            tasks.append(asyncio.create_task(self.one(length, due)))
        return list(await asyncio.gather(*tasks))

    async def warm_up(self, workers: int) -> None:
        """Send rounds of requests until every worker has answered, ten rounds at least."""
        loop, seen = asyncio.get_running_loop(), set[str]()
        limit, rounds = loop.time() + _START, 0
        while rounds < 10 or len(seen) < workers:
            if loop.time() > limit:
                sys.exit(f"{len(seen)} of {workers} workers answer")
            served = await asyncio.gather(
                *(self.one(0.02, loop.time()) for _ in range(4 * workers))
            )
            seen |= {one.worker for one in served}
            rounds += 1

    async def alone(self, length: float, count: int) -> float:
        """Return what a request takes beyond its length when it is the only one [s]: the median."""
        loop = asyncio.get_running_loop()
        return median([(await self.one(length, loop.time())).took - length for _ in range(count)])

    async def busy(self, length: float, width: int) -> float:
        """Return what a request takes beyond its length on servers that are never idle [s].

        It is less than alone: the request has been sent already, and no process has to wake up.
        The first requests differ in length, so that servers finish at different times, as under
        load; if all finished at once, they would get in each other's way.
        """
        loop = asyncio.get_running_loop()
        began, many = loop.time(), _WAVES * width
        lengths = [length * (1 + place / width) for place in range(width)]
        lengths += [length] * (many - width)
        served = await asyncio.gather(*(self.one(each, began) for each in lengths))
        ends = sorted(one.took for one in served)
        return max(0.0, width * (ends[-width] - ends[width]) / (many - 2 * width) - length)

    async def one(self, length: float, due: float) -> Served:
        loop = asyncio.get_running_loop()
        pod = self._choose(self._busy)
        self._busy[pod] += 1
        sent = loop.time() - due
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._ports[pod])
            writer.write(self._request(length))
            answer = await reader.read()
            writer.close()
        finally:
            self._busy[pod] -= 1
        took = loop.time() - due
        found = re.search(rb"^HTTP/1\.\d 200 .*?^X-Worker: (\d+)", answer, re.S | re.M | re.I)
        if found is None:
            sys.exit(f"a server said {answer[:200]!r}")
        return Served(sent=sent, took=took, pod=pod, worker=found[1].decode())

    def _request(self, length: float) -> bytes:
        work = self._work
        parts = {"CPU": work.cpu, "Database": work.database, "Sleep": work.elsewhere}
        lines = "".join(f"X-{part}: {share * length:.6f}\r\n" for part, share in parts.items())
        return f"GET / HTTP/1.0\r\nHost: here\r\n{lines}\r\n".encode()
