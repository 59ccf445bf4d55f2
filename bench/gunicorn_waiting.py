"""Real gunicorn under open-loop load beside the simulation of the same requests.

    python bench/gunicorn_waiting.py                        # some ten minutes, on an idle machine
    python bench/gunicorn_waiting.py --count 300 --runs 1   # whether it works

Each case starts gunicorn, a server for each pod, and sends requests at the times and of the lengths
that the simulation gets too, whether earlier ones were answered or not. Waiting is counted from the
intended start to the last byte, less the length of the request and less what a request takes that
meets nobody (the median of some of no length). A case with a quota needs root and control groups of
version 1: gunicorn runs in one with that quota, and requests use CPU time instead of sleeping.

The aim: predicted p95 within 15 % or 2 ms of the measured one up to 80 % load, 25 % at 90 %.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

from mrtuner.sizing.waiting.queues import Layout, quantile, settled
from mrtuner.sizing.waiting.routing import Routing, router
from mrtuner.sizing.waiting.stages import Site, Work, simulate
from mrtuner.sizing.waiting.times import Times, arrivals

MEAN = 0.040  # of a request [s]: long beside what gunicorn itself takes


@dataclass(frozen=True, kw_only=True)
class Case:
    """What runs, and how busy it is to be."""

    layout: Layout
    load: float  # of the slots; with a quota, of the quota
    routing: Routing = Routing.RANDOM
    quota: float | None = None

    @property
    def name(self) -> str:
        kind = "sync" if self.layout.accept_when_idle else "gthread"
        shape = f"{self.layout.pods} x {self.layout.workers} x {self.layout.threads}"
        limit = f", {self.quota:g} CPUs" if self.quota else ""
        return f"{kind} {shape} {self.routing.words}, {self.load:.0%}{limit}"

    @property
    def rate(self) -> float:
        return self.load * (self.quota or self.layout.slots) / MEAN


def cases() -> Iterator[Case]:
    for load in (0.5, 0.7, 0.8, 0.9):
        yield Case(layout=Layout(pods=1, workers=8), load=load)
    for routing in Routing:
        yield Case(layout=Layout(pods=4, workers=2), load=0.7, routing=routing)
    for load in (0.5, 0.7):
        gthread = Layout(pods=1, workers=4, threads=2, accept_when_idle=False)
        yield Case(layout=gthread, load=load)
    for load in (0.5, 0.7):
        yield Case(layout=Layout(pods=1, workers=2), load=load, quota=0.5)


@contextmanager
def gunicorn(case: Case, port: int) -> Iterator[None]:
    """A server that answers, in a control group where the case has a quota."""
    layout = case.layout
    command = [
        sys.executable, "-m", "gunicorn", "--chdir", str(Path(__file__).parent),
        "--bind", f"127.0.0.1:{port}", "--workers", str(layout.workers), "--log-level", "error",
        "--backlog", "2048",
    ]  # fmt: skip
    if not layout.accept_when_idle:
        command += ["--worker-class", "gthread", "--threads", str(layout.threads)]
    with ExitStack() as stack:
        group = stack.enter_context(quota_group(case.quota)) if case.quota else None
        if group is not None:
            enter = 'echo $$ > "$0" && exec "$@"'
            command = ["sh", "-c", enter, str(group / "cgroup.procs"), *command]
        server = subprocess.Popen([*command, "gunicorn_app:app"])
        try:
            await_port(port, server)
            yield
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)


@contextmanager
def quota_group(quota: float) -> Iterator[Path]:
    own = re.search(r"^\d+:cpu(?:,cpuacct)?:(.*)$", Path("/proc/self/cgroup").read_text(), re.M)
    if own is None:
        sys.exit("no version 1 hierarchy of cpu here")
    folder = Path("/sys/fs/cgroup/cpu", own[1].strip("/"), f"mrtuner-waiting-{os.getpid()}")
    folder.mkdir()
    try:
        (folder / "cpu.cfs_quota_us").write_text(str(round(quota * 100_000)))
        yield folder
    finally:
        folder.rmdir()


def await_port(port: int, server: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + 60
    while server.poll() is None and time.monotonic() < limit:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    sys.exit("gunicorn does not answer")


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Client:
    """Sends each request at its time, to the pod that the router chooses then."""

    def __init__(self, case: Case, ports: Sequence[int], chance: Random) -> None:
        self.ports, self.burn = ports, case.quota is not None
        self.busy = [0] * len(ports)
        self.choose = router(case.routing, len(ports), chance)

    async def run(self, arriving: Sequence[float], times: Sequence[float]) -> list[float]:
        """How long each took from its intended start [s]."""
        loop = asyncio.get_running_loop()
        began, tasks = loop.time(), []
        for arrival, length in zip(arriving, times, strict=True):
            await asyncio.sleep(max(0.0, began + arrival - loop.time()))
            tasks.append(asyncio.create_task(self.one(length, began + arrival)))
        return list(await asyncio.gather(*tasks))

    async def warm_up(self, slots: int) -> None:
        """Wait until all workers have started: as many requests as slots then take as one does."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + 60
        while loop.time() < limit:
            took = await asyncio.gather(*(self.one(0.0, loop.time()) for _ in range(4 * slots)))
            if max(took) < MEAN:
                return
        sys.exit("some workers do not start, or this machine is too busy")

    async def one(self, length: float, due: float) -> float:
        pod = self.choose(self.busy)
        self.busy[pod] += 1
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[pod])
            burn = "X-Burn: 1\r\n" if self.burn else ""
            writer.write(
                f"GET / HTTP/1.0\r\nHost: here\r\nX-Take: {length:.6f}\r\n{burn}\r\n".encode()
            )
            answer = await reader.read()
            writer.close()
        finally:
            self.busy[pod] -= 1
        if b" 200 " not in answer[:20]:
            sys.exit(f"gunicorn said {answer[:80]!r}")
        return asyncio.get_running_loop().time() - due


def measured(case: Case, arriving: Sequence[float], times: Sequence[float]) -> list[float]:
    """What each request waited [s]."""

    async def go(ports: Sequence[int]) -> list[float]:
        await Client(case, ports, Random()).warm_up(case.layout.slots)
        client = Client(case, ports, Random("routing"))
        alone = []
        for _ in range(50):
            alone.append(await client.one(0.0, asyncio.get_running_loop().time()))
        took = await client.run(arriving, times)
        least = median(alone)
        return [each - length - least for each, length in zip(took, times, strict=True)]

    with ExitStack() as stack:
        ports = free_ports(case.layout.pods)
        for port in ports:
            stack.enter_context(gunicorn(case, port))
        return asyncio.run(go(ports))


def predicted(case: Case, arriving: Sequence[float], times: Sequence[float]) -> list[float]:
    work = Work(cpu=1.0 if case.quota else 0.0)
    site = Site(layout=case.layout, routing=case.routing, quota=case.quota)
    return list(simulate(arriving, times, site, work, Random("routing")).total)


def compare(case: Case, count: int, seed: int) -> str:
    chance = Random(f"waiting {seed}")
    arriving = arrivals(case.rate, count, chance)
    times = Times(mean=MEAN).draw(chance, count)
    ours, real = (
        quantile(settled(find(case, arriving, times)), 0.95) * 1000
        for find in (predicted, measured)
    )
    off = abs(ours - real)
    kept = off <= max(2.0, (0.25 if case.load > 0.8 else 0.15) * real)
    verdict = "yes" if kept else "**no**"
    return (
        f"| {case.name} | {seed} | {ours:.1f} | {real:.1f} | {ours / real - 1:+.0%} | {verdict} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=4_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    print(f"p95 of waiting [ms], {given.count:,} requests of {MEAN * 1000:g} ms\n")
    print("| case | run | predicted | measured | off | within the aim |")
    print("|:--|--:|--:|--:|--:|:--|")
    for case in cases():
        for seed in range(given.runs):
            print(compare(case, given.count, seed), flush=True)


if __name__ == "__main__":
    main()
