"""Run a grid: prepare, then block after block, each run from the same start, all of it recorded.

What fails or is disturbed is repeated once, by limits that the plan fixed; the second time a
disturbed block counts all the same and the report says so, a failed one is given up and the rest
goes on.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from mrtuner import __version__
from mrtuner.bench import scratch
from mrtuner.bench.grid.archive import Archive, load, locked
from mrtuner.bench.grid.cells import (
    Block,
    blocks,
    space_needed,
    variant_of,
)
from mrtuner.bench.grid.measure import Place, RunFiles, measured
from mrtuner.bench.grid.plan import Cell, GridPlan
from mrtuner.bench.grid.record import GridRecord, Taken
from mrtuner.bench.grid.servers import Server, servers
from mrtuner.bench.machine import busiest, noise_between, read
from mrtuner.bench.pgbench import Load, find_pgbench, try_out
from mrtuner.bench.proof import DURABILITY, Event, Stage, now, pgbench_version
from mrtuner.bench.record import host_facts
from mrtuner.bench.server import is_local, settings
from mrtuner.errors import MrTunerError, Refused
from mrtuner.host import Host, probe
from mrtuner.postgres.connect import connect, translated
from mrtuner.units import Bytes, pretty_bytes

if TYPE_CHECKING:
    pass

_PREFIX: Final = "mrtuner_bench"
_QUIET_S: Final = 1.0
#: Free space that is not to be touched: WAL up to max_wal_size, growth, and the machine's own.
_RESERVE: Final = Bytes(2 * 1024**3)

Progress = Callable[[Event], None]


def run_grid(
    plan: GridPlan | None,
    directory: Path,
    *,
    embedded: Path | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> GridRecord:
    """Run a plan into a directory; without a plan, go on with the unfinished run there.

    `embedded` is the PostgreSQL installation of variants that name none. Raises Refused for a
    busy machine (unless `force`, which marks the record), for too small a disk, for unequal
    durability that no `bound` owns up to, for another runner; MrTunerError for a variant that
    does not start and for a script that does not run, both before anything is measured.
    """
    with locked(directory), translated():
        # Where scratch_directory() puts the servers.
        host = probe(data_directory=Path(os.environ.get("TMPDIR", "/var/tmp")))  # noqa: S108
        if plan is None:
            archive, record = Archive.resume(directory)
            plan = record.plan
            _require_same_place(record, _head(plan, host, embedded, force=force))
        else:
            record = None
            archive = Archive.create(directory, _head(plan, host, embedded, force=force))
        with servers(plan, embedded) as by_name, TemporaryDirectory(prefix="mrtuner-") as name:
            program = _pgbench(embedded)
            files = RunFiles(plan, Path(name), program)
            grid = _Grid(plan, by_name, archive, files, progress or _unheard, record)
            grid.run_all(host, force=force)
    return load(directory)


def _head(plan: GridPlan, host: Host, embedded: Path | None, *, force: bool) -> dict[str, object]:
    return {
        "plan": plan.to_dict(),
        "host": host_facts(host),
        "kernel": f"{platform.system()} {platform.release()} {_preemption()}".strip(),
        "pgbench": pgbench_version(_pgbench(embedded)),
        "mrtuner": __version__,
        "started": now(),
        "local": all(variant.start is None for variant in plan.variants),
        "forced": force,
    }


def _require_same_place(record: GridRecord, here: Mapping[str, object]) -> None:
    """Half a run of one kernel and half of another would compare kernels."""
    changed = [
        f"{name} was {getattr(record, name)}, is {here[name]}"
        for name in ("kernel", "pgbench", "mrtuner")
        if getattr(record, name) != here[name]
    ]
    if changed:
        raise Refused(
            f"the run was begun elsewhere: {'; '.join(changed)}",
            "Go on where it was begun, or begin another run.",
        )


def _preemption() -> str:
    """PREEMPT_DYNAMIC and its like change pgbench by factors. Source: uname(2), version."""
    words = platform.version().split()
    return next((word for word in words if word.startswith("PREEMPT")), "")


def _pgbench(embedded: Path | None) -> Path:
    from mrtuner.postgres.cluster import find_binaries

    return find_pgbench(find_binaries(embedded))


class _Grid:
    """A grid under way."""

    def __init__(
        self,
        plan: GridPlan,
        by_name: Mapping[str, Server],
        archive: Archive,
        files: RunFiles,
        progress: Progress,
        record: GridRecord | None,
    ) -> None:
        self.plan, self.servers, self.archive = plan, by_name, archive
        self.files, self.progress = files, progress
        self.settings: dict[str, dict[str, str]] = {}
        self.known = dict(record.settings) if record else {}
        self.done = set(record.finished) if record else set()
        self.rates = dict(record.rates) if record else {}
        self.tps: dict[tuple[Cell, str], list[float]] = {}
        self.begun: dict[tuple[str, str, int], int] = {}
        if record:
            self.remember(record)
        self.order = blocks(plan)
        self.step, self.steps = 0, sum(len(block.labels) for block in self.order)
        self.local = True

    def remember(self, record: GridRecord) -> None:
        """Take up what an earlier process measured, and which attempts it left half done."""
        for taken in record.taken:
            sample = taken.sample
            key = (taken.cell.key, sample.phase, sample.block)
            if key not in record.finished:
                self.begun[key] = max(self.begun.get(key, 0), sample.attempt)
            elif sample.rejected is None and sample.phase == "comparison":
                self.tps.setdefault((taken.cell, sample.label), []).append(sample.run.tps)
        for failure in record.failures:
            key = (failure.cell.key, failure.phase, failure.block)
            if key not in record.finished:
                self.begun[key] = max(self.begun.get(key, 0), failure.attempt)

    def run_all(self, host: Host, *, force: bool) -> None:
        self.listen_for_others(force=force)
        self.check_space(host)
        self.survey()
        self.check_durability()
        self.fill()
        for block in self.order:
            self.run_block(block)
        self.archive.seal(now())
        self.tell(Stage.DONE, "done")

    # Telling

    def tell(self, stage: Stage, text: str) -> None:
        self.progress(Event(stage, self.step, self.steps, text))

    def note(self, text: str) -> None:
        self.archive.note(text, now())
        self.tell(Stage.NOTE, text)

    # Before the first run

    def check_space(self, host: Host) -> None:
        """Computed before anything is made: a disk that fills up ruins more than a run."""
        sites = len({server.site for server in self.servers.values() if server.data is not None})
        size = Bytes(space_needed(self.plan) * sites)
        self.tell(Stage.ANNOUNCED, f"databases of {pretty_bytes(size)} will be made and dropped")
        for variant in self.plan.variants:
            need = space_needed(self.plan)
            if variant.disk is not None and need > variant.disk:
                raise Refused(
                    f"the databases need {pretty_bytes(need)}, the disk of {variant.name} has"
                    f" {pretty_bytes(Bytes(variant.disk))}",
                    "Take smaller scales, or a larger disk.",
                )
        free = host.disk_free.value if host.disk_free else None
        if free is not None and size + _RESERVE > free:
            raise Refused(
                f"the databases need {pretty_bytes(size)} and {pretty_bytes(_RESERVE)} to spare,"
                f" the disk has {pretty_bytes(free)} free",
                "Take smaller scales.",
            )

    def survey(self) -> None:
        """Start every variant once: what does not start is known before anything is measured."""
        for name, server in self.servers.items():
            self.tell(Stage.ACTIVATING, f"looking at {name}")
            with _started(server), connect(server.dsn) as session:
                scratch.require_rights(session)
                self.settings[name] = settings(session)
                self.local = self.local and is_local(session)
            self.compare_with_known(name)
            self.archive.settings(name, self.settings[name])

    def compare_with_known(self, name: str) -> None:
        """A run is gone on with only on the server that it was begun on."""
        before = self.known.get(name, {}).get("server_version")
        if before not in (None, self.settings[name].get("server_version")):
            raise Refused(
                f"the run was begun with PostgreSQL {before} for {name}",
                "Go on with the same version, or begin another run.",
            )

    def check_durability(self) -> None:
        baseline = self.settings[self.plan.baseline.name]
        for variant in self.plan.variants[1:]:
            mine = self.settings[variant.name]
            unequal = [name for name in DURABILITY if mine.get(name) != baseline.get(name)]
            if unequal and not variant.bound:
                raise Refused(
                    f"{variant.name} is not as durable as {self.plan.baseline.name}:"
                    f" {', '.join(unequal)} differ",
                    "Set them alike, or mark it bound = true: then it shows what at most could be"
                    " had, and is never advice.",
                )

    def try_scripts(self, server: Server) -> None:
        """One transaction of every workload at scale 1, before hours are spent."""
        template = f"{_PREFIX}_check"
        self.make_template(server, template, 1, None)
        for workload in self.plan.workloads:
            self.tell(Stage.PREPARING, f"trying {workload.name}")
            dsn = scratch.in_database(server.dsn, template)
            if workload.setup is not None:
                self.set_up(dsn, workload.name)
            try_out(dsn, self.files.script(workload.name, 1), 1, program=self.files.program)
        with connect(server.dsn) as session:
            scratch.drop(session, template)

    def listen_for_others(self, *, force: bool) -> None:
        """Refuse a busy machine, with what is busy; no server of ours runs yet."""
        if min(self.plan.steal_limit, self.plan.foreign_limit) >= 1:
            return
        before = read(os.getpid())
        busy = busiest(_QUIET_S)
        noise = noise_between(before, read(os.getpid()))
        reasons = self.files.rules.disturbances(noise.steal, noise.foreign)
        if not reasons:
            return
        who = ", ".join(f"{name} {share:.1f} CPUs" for name, share in busy)
        if not force:
            raise Refused(
                f"the machine is busy: {'; '.join(reasons)} ({who or 'nobody in particular'})",
                "Wait for quiet, or measure all the same with --force: the record will say so.",
            )
        self.note(f"measured on a busy machine: {'; '.join(reasons)} ({who})")

    def fill(self) -> None:
        """Every site gets the same data; its variants copy it before each run that writes."""
        filled: set[str] = set()
        for server in self.servers.values():
            if server.site not in filled:
                with _started(server):
                    if not filled:
                        self.try_scripts(server)
                    self.fill_site(server)
                filled.add(server.site)

    def fill_site(self, server: Server) -> None:
        for scale in self.plan.scales:
            self.tell(Stage.PREPARING, f"filling scale {scale} on {server.site}")
            for template, setup in self.templates(scale).items():
                self.make_template(server, template, scale, setup)

    def templates(self, scale: int) -> dict[str, str | None]:
        """Databases to make at a scale, each with the workload whose own tables it holds."""
        return {
            self.template(workload.name, scale): workload.name if workload.setup else None
            for workload in self.plan.workloads
        }

    def template(self, workload: str, scale: int) -> str:
        place = self.plan.workloads.index(self.plan.by_name[workload]) + 1
        own = f"_w{place}" if self.plan.by_name[workload].setup is not None else ""
        return f"{_PREFIX}_s{scale}{own}"

    def make_template(self, server: Server, template: str, scale: int, setup: str | None) -> None:
        with connect(server.dsn) as session:
            for name in scratch.remove_leftovers(session, template):
                self.note(f"an earlier run had left database {name} behind; dropped")
        scratch.make_template(
            server.dsn, template, Load(scale=scale), self.files.program, fillfactor=None
        )
        if setup is not None:
            dsn = scratch.in_database(server.dsn, template)
            self.set_up(dsn, setup)
            scratch.settle(dsn)

    def set_up(self, dsn: str, workload: str) -> None:
        text = self.plan.by_name[workload].setup or ""
        with connect(dsn) as session:
            session.execute(text.encode())

    # Blocks

    def run_block(self, block: Block) -> None:
        key = (block.cell.key, block.phase, block.number)
        if key in self.done:
            self.step += len(block.labels)
            return
        attempt = self.begun.get(key, 0) + 1
        if attempt > 1:
            self.archive.rejection(
                block.cell, block.phase, block.number, attempt - 1, "interrupted"
            )
        taken, reason = self.attempt(block, attempt)
        if reason:
            self.archive.rejection(block.cell, block.phase, block.number, attempt, reason)
            self.tell(Stage.REPEATING, f"{block.cell.key} block {block.number}: {reason}")
            taken, failed = self.attempt(block, attempt + 1)
            if failed and len(taken) < len(block.labels):
                self.note(f"{block.cell.key} {block.phase} block {block.number} given up: {failed}")
        self.archive.finished(block.cell, block.phase, block.number)
        self.step += len(block.labels)
        if block.phase == "comparison":
            for one in taken:
                self.tps.setdefault((block.cell, one.sample.label), []).append(one.sample.run.tps)

    def attempt(self, block: Block, attempt: int) -> tuple[list[Taken], str]:
        """Run every variant of a block once; why it should be repeated, or nothing."""
        taken: list[Taken] = []
        reasons: list[str] = []
        for position, label in enumerate(block.labels, 1):
            place = Place(block, attempt, position, label, variant_of(label))
            try:
                one = self.measure(place)
            except MrTunerError as error:
                where = {"phase": block.phase, "block": block.number, "attempt": attempt}
                self.archive.failure(block.cell, {**where, "label": label}, error.message)
                reasons.append(f"{label} failed: {error.message}")
                continue
            self.archive.sample(one)
            self.tell(Stage.MEASURED, f"{block.cell.key} {label}: {one.sample.run.tps:.0f} tps")
            taken.append(one)
            reasons += self.files.rules.disturbances(one.sample.steal, one.sample.foreign)
        return taken, "; ".join(dict.fromkeys(reasons))

    def measure(self, place: Place) -> Taken:
        cell, server = place.block.cell, self.servers[place.variant]
        self.tell(Stage.ACTIVATING, f"{cell.key} block {place.block.number}, {place.label}")
        rate = self.rate(cell)
        template = self.template(cell.workload, cell.scale)
        with _started(server), translated():
            database = template
            if not self.plan.by_name[cell.workload].reads_only:
                with connect(server.dsn) as session:
                    database = scratch.fresh_copy(session, template)
            dsn = scratch.in_database(server.dsn, database)
            try:
                self.tell(Stage.MEASURING, f"{cell.key} block {place.block.number}, {place.label}")
                return measured(self.files, place, dsn, server, rate, local=self.local)
            finally:
                if database != template:
                    self.drop_copy(server, database)

    def drop_copy(self, server: Server, database: str) -> None:
        """So that copies of several scales do not pile up; a lost server hides no error."""
        from psycopg import sql

        query = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database))
        with suppress(MrTunerError), connect(server.dsn) as session:
            session.execute(query)

    def rate(self, cell: Cell) -> float | None:
        """Transactions a second to ask for; a share is of the slower variant's median."""
        if not cell.rate:
            return None
        if not cell.relative:
            return float(cell.rate)
        if cell.key not in self.rates:
            seen = [self.tps.get((cell.closed, name), []) for name in self.plan.names]
            if not all(seen):
                raise MrTunerError(f"the capacity of {cell.closed.key} is not known")
            capacity = min(median(values) for values in seen)
            self.rates[cell.key] = round(capacity * float(cell.rate[:-1]) / 100, 1)
            self.archive.rate(cell, self.rates[cell.key])
        return self.rates[cell.key]


@contextmanager
def _started(server: Server) -> Iterator[None]:
    """The server runs inside the block."""
    server.start()
    try:
        yield
    finally:
        server.stop()


def _unheard(event: Event) -> None:
    """Progress that nobody asked for."""
