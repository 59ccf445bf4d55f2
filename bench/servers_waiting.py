"""Application servers under open-loop load beside the simulation of the same requests.

    python bench/servers_waiting.py                         # some 25 minutes, on an idle machine
    python bench/servers_waiting.py --only 'puma;unicorn'
    python bench/servers_waiting.py --count 200 --runs 1    # whether it works
    python bench/servers_waiting.py --only puma --puma-of sid    # Puma 8

Each case starts a server for each pod, with the configuration that `mrtuner pods plan` writes, and
sends requests at the times and of the lengths that the simulation gets too, whether earlier ones
were answered or not. Waiting is counted from the intended start to the last byte, less what the
same request takes that meets nobody. The simulation's service time is the length of a request and
what a busy worker needs beside it. Both are measured before each run. A case with a quota needs
root and control groups of version 1; its requests use CPU time, the others sleep, and the
simulation is told at which point of 100 ms the kernel renews the quota. Servers that are not
installed are skipped (`application_servers.py` says what to install).

The aim: predicted p95 within 15 % or 2 ms of the measured one up to 80 % load, 25 % at 90 %.
*Taken* is what the simulation says when told which worker took each request, for those that accept
while busy. *Late* is p95 of how late the client sent, in the worst run; a run in which that is over
1 ms is *busy*.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from heapq import heapreplace
from random import Random

import database_pooled
import debian_puma
from application_servers import (
    Client,
    Served,
    configuration,
    cpu_used,
    group_of,
    installed_puma,
    missing,
    pods,
    renewals,
    run_precisely,
)

from mrtuner_pods.planning.servers import Server
from mrtuner_pods.waiting.cpu import PERIOD
from mrtuner_pods.waiting.queues import Accepting, Layout, quantile, settled
from mrtuner_pods.waiting.routing import Routing
from mrtuner_pods.waiting.service_times import Times, arrivals
from mrtuner_pods.waiting.stages import Site, Work, simulate

#: Mean length of a request [s]: long compared with what a server itself takes; shorter where it is
#: CPU time, because a quota of half a CPU lets few requests pass.
SLEEPING, BURNING = 0.030, 0.010
#: With more CPU time, requests would also wait for the machine's two CPUs.
LITTLE_CPU = Work(cpu=0.1)
ASLEEP, BEHIND = Work(cpu=0.0), Work(cpu=0.0, database=1.0)


#: A client that sends 5 % of the requests later than this shares the CPUs with something else: the
#: run says nothing [ms].
MOST_LATE = 1.0
#: gunicorn's defaults, instead of the values of the plan.
DEFAULT = "worker_connections = 1000\nkeepalive = 2\n"


@dataclass(frozen=True, kw_only=True)
class Overhead:
    """What a request takes beyond its length [s]."""

    alone: float  # when it meets nobody
    busy: float  # of a worker that is never idle
    cpu: float = 0.0  # of the pods' CPU time, where they have a quota
    database: float = 0.0  # of a server connection's time, where there is a pooler


@dataclass(frozen=True, kw_only=True)
class Case:
    """What runs, and how busy it should be."""

    server: Server | str  # or uvicorn, which is not planned for
    layout: Layout
    load: float  # of the stage that is busiest
    routing: Routing = Routing.RANDOM
    quota: float | None = None
    pooler: int | None = None
    pool: int | None = None  # connections of a worker, which takes any number of requests
    work: Work = ASLEEP
    extra: str = ""  # lines in the configuration

    @property
    def name(self) -> str:
        layout = self.layout
        shape = f"{layout.pods} x {layout.workers} x {layout.threads}"
        parts = [f"{self.server} {shape}"]
        parts += [self.routing.words] if layout.pods > 1 else []
        parts += [f"{self.quota:g} CPUs"] if self.quota else []
        parts += [f"{self.pooler} server connections"] if self.pooler else []
        parts += [f"a pool of {self.pool}"] if self.pool else []
        parts += ["waits for a less busy worker"] if layout.accept_delay else []
        parts += [f"{self.work.cpu:.0%} CPU"] if 0 < self.work.cpu < 1 else []
        parts += ["worker_connections by default"] if DEFAULT in self.extra else []
        parts += ["reuse_port"] if "reuse_port" in self.extra else []
        return f"{', '.join(parts)}, {self.load:.0%}"

    @property
    def mean(self) -> float:
        return BURNING if self.quota else SLEEPING

    def rate(self, overhead: Overhead) -> float:
        """Return the requests per second that keep the busiest stage at the wanted load."""
        if self.quota:
            return self.load * self.layout.pods * self.quota / (self.mean + overhead.cpu)
        if self.pooler:
            return self.load * self.pooler / (self.mean + overhead.database)
        if self.pool:
            places = self.layout.pods * self.layout.workers * self.pool
            return self.load * places / (self.mean + overhead.database)
        return self.load * self.layout.slots / (self.mean + overhead.busy)

    def site(self) -> Site:
        site = Site(
            layout=self.layout, routing=self.routing, quota=self.quota, pooler=self.pooler,
            pool=self.pool, any_number=self.pool is not None,
        )  # fmt: skip
        if not isinstance(self.server, Server):
            return site
        return replace(site, turn=self.server.facts.turn, hands_over=self.server.facts.hands_over)

    def work_beside(self, overhead: Overhead) -> Work:
        """Return shares of the whole service time, of which the overhead is a part.

        If requests use CPU, the overhead counts as CPU time: as measured under a quota, all of it
        without one.
        """
        whole = self.mean + overhead.busy
        beside = overhead.cpu if self.quota else overhead.busy
        return Work(
            cpu=(self.work.cpu * self.mean + beside) / whole if self.work.cpu else 0.0,
            database=(self.work.database * self.mean + overhead.database) / whole,
        )


def shared(pods: int, workers: int, threads: int = 1) -> Layout:
    """Return a layout in which a worker accepts only if it has a free thread."""
    return Layout(pods=pods, workers=workers, threads=threads)


def cases() -> Iterator[Case]:
    sync, gthread, unicorn = Server.GUNICORN, Server.GTHREAD, Server.UNICORN
    puma = installed_puma()
    for load in (0.5, 0.7, 0.8, 0.9):
        yield Case(server=sync, layout=shared(1, 8), load=load)
    for routing in Routing:
        yield Case(server=sync, layout=shared(4, 2), load=0.7, routing=routing)
    racing = gthread.facts.layout_by_default(1, 4, 2)
    for load in (0.5, 0.7):
        yield Case(server=gthread, layout=racing, load=load, extra=DEFAULT)
    yield Case(server=gthread, layout=racing, load=0.7, extra=DEFAULT + "reuse_port = True\n")
    for load in (0.7, 0.8, 0.9):
        yield Case(server=gthread, layout=shared(1, 4, 2), load=load)
    for server in (gthread, puma):
        yield Case(server=server, layout=server.facts.layout(1, 2, 4), load=0.7, work=LITTLE_CPU)
    for load in (0.5, 0.7):
        yield Case(server=sync, layout=shared(1, 2), load=load, quota=0.5, work=Work())
    yield Case(
        server=sync, layout=shared(2, 2), load=0.7, quota=0.5, work=Work(),
        routing=Routing.LEAST_CONNECTIONS,
    )  # fmt: skip
    yield Case(server=sync, layout=shared(1, 12), load=0.8, pooler=6, work=BEHIND)
    for load in (0.8, 0.9):
        yield Case(server=unicorn, layout=shared(1, 8), load=load)
    for load in (0.7, 0.8, 0.9):
        yield Case(server=puma, layout=puma.facts.layout(1, 4, 2), load=load)
    for routing in (Routing.RANDOM, Routing.LEAST_CONNECTIONS):
        yield Case(server=puma, layout=puma.facts.layout(4, 1, 2), load=0.7, routing=routing)
    yield Case(server=puma, layout=puma.facts.layout(1, 4, 3), load=0.8, pooler=6, work=BEHIND)
    for load in (0.7, 0.8) if puma is Server.PUMA_6 else ():
        layout = puma.facts.layout_by_default(1, 4, 2)
        extra = f"wait_for_less_busy_worker {layout.accept_delay}\n"
        yield Case(server=puma, layout=layout, load=load, extra=extra)
    for load in (0.7, 0.8):
        yield Case(server="uvicorn", layout=shared(1, 1), load=load, pool=6, work=BEHIND)
    yield Case(
        server="uvicorn", layout=shared(4, 1), load=0.7, pool=2, work=BEHIND,
        routing=Routing.LEAST_CONNECTIONS,
    )  # fmt: skip
    yield Case(
        server="uvicorn", layout=shared(1, 1), load=0.7, pool=4, work=Work(cpu=0.1, database=0.9)
    )


@dataclass(frozen=True, kw_only=True)
class Run:
    """One case, loaded once; arrivals and lengths in seconds."""

    case: Case
    arriving: Sequence[float]
    lengths: Sequence[float]
    overhead: Overhead
    served: Sequence[Served]
    renewals: tuple[float, ...]  # when each pod's quota is first renewed

    @property
    def services(self) -> list[float]:
        return [length + self.overhead.busy for length in self.lengths]

    def measured(self) -> list[float]:
        alone = self.overhead.alone
        return [
            one.took - length - alone for one, length in zip(self.served, self.lengths, strict=True)
        ]

    def predicted(self) -> list[float]:
        work = self.case.work_beside(self.overhead)
        same = Random("routing")  # as the client's: both choose the same pods at random
        site = replace(self.case.site(), renewals=self.renewals)
        return list(simulate(self.arriving, self.services, site, work, same).total)

    def taken(self) -> list[float]:
        """Return how long requests wait if the workers that took them serve them in order [s]."""
        free: dict[str, list[float]] = {}
        found = []
        for arrival, service, one in zip(self.arriving, self.services, self.served, strict=True):
            slots = free.setdefault(one.worker, [0.0] * self.case.layout.threads)
            start = max(slots[0], arrival)
            heapreplace(slots, start + service)
            found.append(start - arrival)
        return found


async def loaded(case: Case, ports: Sequence[int], count: int, runs: int) -> list[Run]:
    layout = case.layout
    first = Client(ports, case.routing, case.work, Random())
    await first.warm_up(layout.pods * layout.workers)
    done = []
    for seed in range(runs):
        chance = Random(f"waiting {seed}")
        overhead = await measured_overhead(case, ports)
        arriving = arrivals(case.rate(overhead), count, chance)
        lengths = Times(mean=case.mean).draw(chance, count)
        client = Client(ports, case.routing, case.work, Random("routing"))
        groups = [group_of(port) for port in ports] if case.quota else []
        renewed = renewals(groups)
        before = sum(map(cpu_used, groups))
        served = await client.run(arriving, lengths)
        if groups:  # busy servers use more for each request than those that just began
            used = sum(map(cpu_used, groups)) - before - sum(lengths)
            overhead = replace(overhead, cpu=used / count)
        done.append(
            Run(
                case=case, arriving=arriving, lengths=lengths, overhead=overhead, served=served,
                renewals=tuple((one - client.began) % PERIOD or PERIOD for one in renewed),
            )
        )  # fmt: skip
    return done


async def measured_overhead(case: Case, ports: Sequence[int]) -> Overhead:
    """Measure with requests of half the usual length, or of length 0 if a quota would stop them."""
    client = Client(ports, Routing.LEAST_CONNECTIONS, case.work, Random())
    if case.quota:
        group = group_of(ports[0])
        before = cpu_used(group)
        alone = await client.alone(0.0, 40)
        return Overhead(alone=alone, busy=alone, cpu=(cpu_used(group) - before) / 40)
    length = case.mean / 2
    alone = await client.alone(length, 40)
    if case.layout.accepting is Accepting.ANY:  # some of its workers idle while requests wait
        return Overhead(alone=alone, busy=alone)
    width = case.pooler or case.layout.pods * case.layout.workers * (
        case.pool or case.layout.threads
    )
    busy = min(alone, await client.busy(length, width))
    if case.pooler is None and case.pool is None:
        return Overhead(alone=alone, busy=busy)
    return Overhead(alone=alone, busy=alone, database=0.0 if case.work.cpu else busy)


def loads(case: Case, count: int, runs: int) -> list[Run]:
    """Start the servers and load them `runs` times."""
    layout, environment = case.layout, dict[str, str]()
    with ExitStack() as stack:
        if case.pooler:
            cluster = stack.enter_context(database_pooled.database(case.pooler))
            written = database_pooled.settings(case.pooler, layout.slots + 10)
            pooler = database_pooled.pgbouncer(cluster, written)
            environment["DATABASE_URL"] = stack.enter_context(pooler)
        if case.pool:
            cluster = stack.enter_context(database_pooled.database(2 * layout.pods * case.pool))
            environment |= {
                "DATABASE_URL": database_pooled.url(cluster), "POOL": str(case.pool)
            }  # fmt: skip
        text = configuration(case.server, layout) + case.extra
        ports = stack.enter_context(
            pods(case.server, text, layout.pods, quota=case.quota, environment=environment)
        )
        return run_precisely(loaded(case, ports, count, runs))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The figures of a run; times in ms."""

    predicted: float
    measured: float
    taken: float | None  # predicted from the workers that took requests, where any may accept
    late: float
    shares: str  # of the workers, in percent

    def verdict(self, load: float) -> str:
        if self.late > MOST_LATE:
            return "busy"
        aim = max(2.0, (0.25 if load > 0.8 else 0.15) * self.measured)
        return "yes" if abs(self.predicted - self.measured) <= aim else "**no**"


def outcome(done: Run) -> Outcome:
    shares = Counter(one.worker for one in done.served)
    return Outcome(
        predicted=p95(done.predicted()),
        measured=p95(done.measured()),
        taken=p95(done.taken()) if done.case.layout.accepting is Accepting.ANY else None,
        late=p95([one.sent for one in done.served]),
        shares="/".join(
            f"{100 * number / len(done.served):.0f}" for _, number in shares.most_common()
        ),
    )


def row(name: str, load: float, outcomes: Sequence[Outcome]) -> str:
    verdicts = [one.verdict(load) for one in outcomes]
    taken = [one.taken for one in outcomes if one.taken is not None]
    return (
        f"| {name} | {_listed([one.predicted for one in outcomes])} "
        f"| {_listed([one.measured for one in outcomes])} | {', '.join(verdicts)} "
        f"| {_listed(taken)} | {max(one.late for one in outcomes):.1f} | {outcomes[0].shares} |"
    )


def _listed(times: Sequence[float]) -> str:
    return ", ".join(f"{time:.1f}" for time in times) or "–"


def p95(seconds: Sequence[float]) -> float:
    """Return the 95th percentile [ms] of times in seconds."""
    return quantile(settled(seconds), 0.95) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--only", default="", help="servers, or words in the name of a case, with ; between"
    )
    parser.add_argument("--puma-of", help="a release of Debian: sid, trixie; default: what is here")
    given = parser.parse_args()
    if given.puma_of:
        debian_puma.put_first_in_path(given.puma_of)
    print(
        f"p95 wait [ms], {given.count:,} requests a run of {SLEEPING * 1000:g} ms asleep or "
        f"{BURNING * 1000:g} ms of CPU time (quotas: half as many); {os.cpu_count()} CPUs, Linux "
        f"{platform.release().partition('-')[0]}, Python {platform.python_version()}\n"
    )
    print("| case | predicted | measured | within the aim | taken | late | shares of workers [%] |")
    print("|:--|:--|:--|:--|:--|--:|:--|")
    words = [word for word in given.only.split(";") if word]
    for case in cases():
        if words and not any(word in case.name for word in words):
            continue
        reason = missing(case.server) or (database_pooled.missing() if case.pooler else None)
        if reason:
            print(f"skipped: {case.name}: {reason}", file=sys.stderr)
            continue
        count = given.count // 2 if case.quota else given.count
        outcomes = [outcome(done) for done in loads(case, count, given.runs)]
        print(row(case.name, case.load, outcomes), flush=True)


if __name__ == "__main__":
    main()
