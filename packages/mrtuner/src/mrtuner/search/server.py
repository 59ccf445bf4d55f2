"""Servers of our own for a search, filled once: one that is switched between two sides run by run,
or, where memory is limited, one for each side, since a restart would empty its small caches.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Final

from mrtuner.bench.engine.events import Event, Stage
from mrtuner.bench.engine.preparation import Conduct
from mrtuner.bench.engine.run import RunFiles
from mrtuner.bench.load.pgbench import PATIENCE_S, initialise
from mrtuner.bench.plan.cells import seed_of
from mrtuner.bench.plan.model import GridCell, Plan, Variant, Workload
from mrtuner.bench.proof import RunningServer
from mrtuner.bench.record.document import MeasuredRun
from mrtuner.bench.series import Task, measure
from mrtuner.bench.server import guard, instance, scratch, sites
from mrtuner.bench.server.copying import copy_database
from mrtuner.bench.server.session import one_row
from mrtuner.bench.server.standing import DATABASE, copied, evict
from mrtuner.bench.verdict.judge import verdicts
from mrtuner.bench.verdict.pairs import Measure, latency
from mrtuner.errors import MrTunerError
from mrtuner.postgres.connect import connect
from mrtuner.search.goal import NO_P99, NO_TAIL, measure_of
from mrtuner.search.procedure import LONG_RUNS
from mrtuner.search.profile import evidence, most_images, of_run
from mrtuner.search.race import Raced
from mrtuner.search.schedule import LONG_RUN, warm, warming
from mrtuner.search.space import Server
from mrtuner.stats.comparison import Pair, Verdict, compare
from mrtuner.stats.histogram import merged
from mrtuner.units import Bytes, GiB

if TYPE_CHECKING:
    from mrtuner.bench.engine.events import Progress
    from mrtuner.bench.record.model import Record
    from mrtuner.host.model import Host
    from mrtuner.postgres.connect import Connection
    from mrtuner.search.model import BindingEvidence, Schedule, Settings

_FIRST, _SECOND = "baseline", "candidate"
#: For filling only.
_FILLING: Final = {"max_wal_size": "4GB", "maintenance_work_mem": "64MB", "wal_compression": "on"}
#: Races that have a verdict, and a record of their own.
_JUDGED: Final = ("confirmation", "reduced", LONG_RUNS)
#: With more of the CPUs in use by others, a verdict would be one on them.
_MOST_OF_OTHERS: Final = 0.2
#: How long a run may last beyond its end, in windows and in longest transactions of the advice; at
#: least so many seconds.
_OVERTIME_WINDOWS, _OVERTIME_TRANSACTIONS, _LEAST_OVERTIME_S = 4, 4, 30
#: A reload is a signal: it arrives a little later.
_RELOAD_S, _POLL_S = 10.0, 0.02
#: Of a limited volume, which is sparse: two copies of the data, and WAL.
_DISK: Final = Bytes(40 * GiB)


@dataclass(kw_only=True)
class OwnServer:
    """A running cluster of ours on a site of `mrtuner.bench`, with its limits."""

    site: sites.Site
    group: Path | None
    limits: Variant  # its memory and its IOPS
    settings: dict[str, str] | None = None  # what it was started with, and reloaded since

    @property
    def dsn(self) -> str:
        return self.site.cluster.dsn()

    @property
    def version(self) -> str:
        return str(self.site.cluster.binaries.version)

    def put(self, settings: Mapping[str, str], *, restart: bool) -> None:
        """Put settings into force, by a restart or by a reload.

        Raises ConnectError if the server does not start with them, MrTunerError if one of them
        does not take effect.
        """
        self.site.configure(sites.settings_text(replace(self.limits, settings=settings)))
        if restart or self.settings is None:
            self.settings = None
            self.site.cluster.stop()
            with instance.inside(self.group):
                self.site.cluster.start()
            self.site.admit()
        elif settings != self.settings:
            self.settings = None
            self._reload()
        self.settings = dict(settings)

    def _reload(self) -> None:
        loaded = "SELECT pg_conf_load_time()"
        with connect(self.dsn) as session:
            before = one_row(session, loaded)[0]
            session.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + _RELOAD_S
        while time.monotonic() < deadline:
            with connect(self.dsn) as session:  # a new session has what the postmaster has read
                if one_row(session, loaded)[0] != before:
                    self._require_all(session)
                    return
            time.sleep(_POLL_S)
        raise MrTunerError("the server did not reload its settings", "See its log.")

    @staticmethod
    def _require_all(session: Connection) -> None:
        query = "SELECT name, error FROM pg_file_settings WHERE error IS NOT NULL"
        wrong = session.execute(query).fetchall()
        if wrong:
            text = "; ".join(f"{name}: {error}" for name, error in wrong)
            raise MrTunerError(f"settings did not take effect: {text}", "See the server's log.")

    def known(self) -> Server:
        return known(self.dsn, self.site.cluster.binaries.major)

    def may_have_twin(self, host: Host | None) -> bool:
        """Whether memory is limited, and two servers with this limit fit into the machine."""
        limit, known = self.limits.memory, host.memory if host else None
        return limit is not None and known is not None and 2 * limit <= known.value

    def twin(self, stack: ExitStack) -> OwnServer:
        """Return a server, not started, on a copy of the data; the stack removes it.

        This one is stopped. What copying read is dropped: it would be no part of the limit.
        """
        self.settings = None
        self.site.cluster.stop()
        cluster = copied(self.site.cluster, self.site.cluster.directory.with_name("twin"))
        cluster.configure({"listen_addresses": ""})  # the port is taken
        stack.callback(cluster.remove)
        stack.enter_context(guard.server_stopped(cluster.data))
        for one in (self.site.cluster, cluster):
            evict(one.directory)
        site = replace(self.site, cluster=cluster)
        limits = replace(self.limits, name=f"{self.limits.name}-twin")
        return OwnServer(site=site, group=sites.group(stack, limits, site), limits=limits)

    def fill(self, scale: int, program: Path) -> None:
        """Create pgbench's tables, vacuumed, in a database of their own."""
        with self._filling() as inside:
            initialise(inside, scale, program=program)

    def copy(self, dsn: str) -> str:
        """Copy a database, vacuum the copy, and return where it is.

        MrTunerError if it cannot be copied.
        """
        with self._filling() as inside:
            copy_database(dsn, inside, self.site.cluster.binaries)
        return inside

    @contextmanager
    def _filling(self) -> Iterator[str]:
        self.put(_FILLING, restart=True)
        with connect(self.dsn) as session:
            session.execute(f"CREATE DATABASE {DATABASE} TEMPLATE template0")
        inside = self.site.cluster.dsn(DATABASE)
        yield inside
        scratch.settle(inside)


def known(dsn: str, major: int) -> Server:
    """Return a server's parameters, and the values that its build accepts."""
    from mrtuner.catalog import parameters

    with connect(dsn) as session:
        query = "SELECT name, enumvals FROM pg_settings WHERE vartype = 'enum'"
        accepted = {name: tuple(values) for name, values in session.execute(query).fetchall()}
        names = {name for (name,) in session.execute("SELECT name FROM pg_settings")}
    return Server(
        parameters={name: one for name, one in parameters(major).items() if name in names},
        accepted=accepted,
    )


@contextmanager
def own_server(
    server_bin: Path | None, *, memory: int | None, iops: int | None
) -> Iterator[OwnServer]:
    """A fresh, running server with the settings that initdb gives; it is removed afterwards.

    `memory` [bytes] limits it, its page cache included, and `iops` caps its volume: as root, with
    control groups, else MissingPart.
    """
    disk = None if iops is None else _DISK
    limits = Variant(name="search", memory=memory, iops=iops, disk=disk)
    instance.require(memory=memory is not None, volume=iops is not None)
    with ExitStack() as stack:
        site = sites.make(stack, limits, server_bin)
        group = sites.group(stack, limits, site)
        stack.callback(site.cluster.stop, "immediate")
        made = OwnServer(site=site, group=group, limits=limits)
        made.put({}, restart=True)
        yield made


@contextmanager
def sides(own: OwnServer, host: Host | None) -> Iterator[tuple[OwnServer, ...]]:
    """The servers to measure on, filled: two with the same data, or one for both sides."""
    with ExitStack() as stack:
        yield (own, own.twin(stack)) if own.may_have_twin(host) else (own,)


@dataclass(kw_only=True)
class Measurements:
    """Races on servers of ours, by the engine of `mrtuner.bench`."""

    own: tuple[OwnServer, ...]  # one for both sides, or one for each
    known: Server
    workload: Workload
    cell: GridCell
    threads: int
    schedule: Schedule
    seed: int
    program: Path
    host: Host | None
    kept: Path  # directory of the records of what is reported
    progress: Progress
    recordable: bool = True  # whether the texts of the load may be kept
    longest: float | None = None  # transaction of the advice [s]; None: not seen yet

    @property
    def postpones(self) -> bool:
        """Whether the load may write; see `procedure.Measuring`."""
        return not self.workload.reads_only

    def race(
        self, first: Settings, second: Settings, pairs: int, enough: Callable[[Raced], bool],
        title: str,
    ) -> Raced:  # fmt: skip
        """Measure pairs of runs, in random order within each; see `procedure.Measuring`.

        Where each side has a server, the sides exchange them after half of the pairs of a race that
        has a verdict: what one server does faster is then no gain. An odd number of pairs becomes
        even.
        """
        began = time.monotonic()
        sides = {_FIRST: first, _SECOND: second}
        exchanged = len(self.own) > 1 and title in _JUDGED
        if exchanged:
            pairs += pairs % 2
        plan = self._plan(sides, pairs, title)
        order = self._fewest_restarts(sides)
        servers: dict[str, RunningServer] = {}

        def after_block(taken: Sequence[MeasuredRun]) -> bool:
            if exchanged and len(taken) == pairs:  # half of two runs each
                servers.update(self._started(order[::-1], sides, plan))  # for the runs to come
            return enough(self._raced(taken))

        conduct = Conduct(
            what="search", database=DATABASE, theirs=True, force=True, enough=after_block,
            overtime=self._overtime(),
        )  # fmt: skip
        try:
            servers |= self._started(order, sides, plan)
            done = measure(
                Task(title=title, why="a race of a search", plan=plan), servers,
                program=self.program, host=self.host, progress=self.progress, conduct=conduct,
                keep=self._place(title),
            )  # fmt: skip
        except MrTunerError:
            for own in self.own:
                own.settings = None  # what a killed load began may go on there until a restart
            raise
        if alike := first == second:
            times = [one.times.counts for one in done.record.samples if one.times.counts]
            self.longest = max((one[-1][0] / 1e6 for one in times), default=None)
        return replace(
            self._judged(title, done.record, pairs if exchanged else 0),
            evidence=self._evidence(done.record) if alike else (),
            seconds=time.monotonic() - began,
        )

    def _overtime(self) -> int:
        """Return how long a run may last beyond its end [s]: a plan may be a hundred times slower.

        A load whose transactions take minutes has the usual patience until the advice has run.
        """
        if self.longest is None:
            return PATIENCE_S
        of_load = ceil(_OVERTIME_TRANSACTIONS * self.longest)
        return max(_LEAST_OVERTIME_S, _OVERTIME_WINDOWS * self.schedule.window, of_load)

    def warm_up(self, advice: Settings) -> None:
        """Start with the advice and run the load for a while: what was just filled is not steady.

        Raises MrTunerError with what is wrong with a script of the user's.
        """
        for own in self.own:
            own.put(advice, restart=True)
        plan = self._plan({_FIRST: advice, _SECOND: advice}, 1, "warm-up")
        self._lead_in(plan, warming(self.schedule), try_out=True)

    def _lead_in(self, plan: Plan, seconds: int, *, try_out: bool = False) -> None:
        """Run the load on each server, beyond these seconds while its throughput still rises.

        With cold caches, less shared_buffers would look better.
        """
        self.progress(Event(Stage.WARMING_UP, 0, 0, f"{len(self.own) * seconds} s or more"))
        with guard.temporary_directory("mrtuner-search-") as place:
            files = RunFiles(plan, place, self.program, overtime=self._overtime())
            driver = files.driver(self.cell)
            for own in self.own:
                inside = files.dsn(self.cell, scratch.in_database(own.dsn, DATABASE))
                if try_out:
                    driver.try_out(inside)
                took, throughputs = 0.0, list[float]()
                while not warm(throughputs, took, seconds):
                    # Another seed each time: the same keys again would be found in the caches.
                    again = plan.seed + len(throughputs)
                    ran, _ = driver.run(inside, ceil(seconds / 2), again)
                    throughputs.append(ran.tps)
                    took += ran.wall

    def _fewest_restarts(self, sides: Mapping[str, Settings]) -> tuple[OwnServer, ...]:
        return min(
            (self.own, self.own[::-1]),
            key=lambda order: sum(map(self._needs_restart, order, sides.values())),
        )

    def _started(
        self, order: Sequence[OwnServer], sides: Mapping[str, Settings], plan: Plan
    ) -> dict[str, RunningServer]:
        """Start the server of each side; return them."""
        # A server of both sides begins with the first.
        started = [self._put(own, side) for own, side in zip(order, sides.values(), strict=False)]
        restart = self.restarts(*sides.values())
        if any(started) and not restart:
            one_each = len(order) > 1
            self._lead_in(plan, warming(self.schedule) if one_each else self.schedule.window)
        return {
            name: RunningServer(
                own.dsn, partial(own.put, side, restart=restart), own.site.cluster.data
            )
            for own, (name, side) in zip((order[0], order[-1]), sides.items(), strict=True)
        }

    def restarts(self, first: Settings, second: Settings) -> bool:
        """Whether one server restarts before each run, which then warms up for longer."""
        return len(self.own) == 1 and self.known.restarts(first, second)

    def _needs_restart(self, own: OwnServer, side: Settings) -> bool:
        return own.settings is None or self.known.restarts(own.settings, side)

    def _put(self, own: OwnServer, side: Settings) -> bool:
        """Put a side into force; return whether the server was started for it."""
        restart = self._needs_restart(own, side)
        own.put(side, restart=restart)
        return restart

    def _plan(self, sides: Mapping[str, Settings], count: int, title: str) -> Plan:
        limits, planned = self.own[0].limits, self.schedule
        seconds = max(planned.window, LONG_RUN) if title == LONG_RUNS else planned.window
        return Plan(
            name="search", workloads=(self.workload,), scales=(self.cell.scale,),
            clients=(self.cell.clients,), rates=(self.cell.rate,), threads=self.threads,
            variants=tuple(
                Variant(name=name, settings=side, memory=limits.memory, iops=limits.iops)
                for name, side in sides.items()
            ),
            blocks=count, seconds=seconds,
            warmup=max(planned.warmup, seconds if self.restarts(*sides.values()) else 0),
            # Time is limited: no pair is repeated, and what others took is judged at the end.
            steal_limit=1.0, foreign_limit=1.0, seed=seed_of(f"{self.seed} {title}"),
            standing=True,
        )  # fmt: skip

    def _place(self, title: str) -> Path | None:
        """Where a record is kept: trials are in the record of the search."""
        if title not in _JUDGED or not self.recordable:
            return None
        place = self.kept / title
        shutil.rmtree(place, ignore_errors=True)  # of an interrupted attempt
        return place

    def _raced(self, taken: Sequence[MeasuredRun]) -> Raced:
        """Return the pairs of runs so far."""
        read = measure_of(self.cell.rate, reads_only=self.workload.reads_only)
        p99 = latency(0.99)
        sides = [
            {one.block: one for one in taken if one.label == name} for name in (_FIRST, _SECOND)
        ]
        both = sorted(sides[0].keys() & sides[1].keys())
        return Raced(
            pairs=_values(sides, both, read), slowest=_values(sides, both, p99) or _of_all(sides),
            failed=(_failed(sides[0].values()), _failed(sides[1].values())),
        )  # fmt: skip

    def _judged(self, title: str, record: Record, exchanged: int) -> Raced:
        """Return a race that has ended; its servers were exchanged after half of so many pairs."""
        raced = self._raced(record.samples)
        judged = next(iter(verdicts(record)), None)  # None without a pair that has a ratio
        few = judged is not None and self.cell.rate != "" and judged.measure != "p99 latency"
        refused = (NO_P99,) if few else () if judged is None else judged.refused
        others = tuple(disturbed(record)) if title in _JUDGED else ()
        refused += others
        halves = [
            self._raced([one for one in record.samples if (2 * one.block > exchanged) is later])
            for later in (False, True)
        ]
        return replace(
            raced,
            verdict=Verdict.UNDECIDED if judged is None or refused else judged.verdict,
            refused=refused,
            disturbed=others,
            cautions=(
                *(() if judged is None else judged.cautions),
                *(() if raced.slowest else (NO_TAIL,)),
                *(unlike_servers(*(one.pairs for one in halves)) if exchanged else ()),
                *(() if self.workload.reads_only else _compressing(record.plan)),
            ),
        )

    def _evidence(self, record: Record) -> tuple[BindingEvidence, ...]:
        """Return what holds the advice back; the first run does not count: caches may be cold."""
        runs = [one for one in record.samples if one.label == _FIRST]
        counted = [one for one in runs if one.block > 1] or runs
        with connect(scratch.in_database(self.own[0].dsn, DATABASE)) as session:
            size = one_row(session, "SELECT pg_database_size(current_database())")[0]
        return evidence(
            [of_run(one) for one in counted], os.cpu_count() or 1,
            most_images(counted, record.settings[_FIRST], size),
        )  # fmt: skip


def disturbed(record: Record) -> Iterator[str]:
    """Yield why there is no verdict, and what to do, if others used much of the machine.

    Counts the runs that count; a share that is unknown is none.
    """
    runs = [one for one in record.samples if one.rejected is None]
    steal = [one.steal for one in runs if one.steal is not None]
    foreign = [one.foreign for one in runs if one.foreign is not None]
    limited = replace(record.plan, steal_limit=_MOST_OF_OTHERS, foreign_limit=_MOST_OF_OTHERS)
    for why in limited.disturbances(*(fmean(one) if one else None for one in (steal, foreign))):
        yield f"{why}: search while nothing else runs on this machine"


def unlike_servers(before: Sequence[Pair], after: Sequence[Pair]) -> Iterator[str]:
    """Yield a caution if pairs differ beyond chance from those after the servers were exchanged."""
    changed = [(a[1] / a[0], b[1] / b[0]) for a, b in zip(before, after, strict=False)]
    if changed and compare(changed).false_alarm:
        gains = " and ".join(f"{compare(one).gain:+.1%}" for one in (before, after))
        yield f"the servers of the two sides differ: {gains}, before and after they were exchanged"


def _compressing(plan: Plan) -> Iterator[str]:
    if len({one.settings.get("wal_compression") for one in plan.variants}) > 1:
        yield (
            "each run begins right after a checkpoint, when most pages written are full-page "
            "images: over a whole checkpoint cycle, wal_compression changes less"
        )


def _values(
    sides: Sequence[Mapping[int, MeasuredRun]], both: Sequence[int], read: Measure
) -> list[tuple[float, float]]:
    found = [(read(sides[0][block]), read(sides[1][block])) for block in both]
    return [(a, b) for a, b in found if a and b]


def _of_all(sides: Sequence[Mapping[int, MeasuredRun]]) -> list[tuple[float, float]]:
    """Return the p99 latencies of all runs of a race together, if that is enough transactions."""
    a, b = (merged(one.times for one in runs.values()).percentile(0.99) for runs in sides)
    return [(float(a), float(b))] if a and b else []


def _failed(samples: Iterable[MeasuredRun]) -> float:
    """Return the share of transactions that failed."""
    runs = [one.run for one in samples]
    shares = [one.failed / max(one.failed + one.transactions, 1) for one in runs]
    return fmean(shares) if shares else 0.0
