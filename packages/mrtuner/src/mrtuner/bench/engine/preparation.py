"""What all runs require: a quiet machine, servers of equal durability, the same data on each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mrtuner.bench.engine.events import STEPS_OF_A_RUN, Progress, Stage, Teller
from mrtuner.bench.engine.machine import busiest, noise_between, read
from mrtuner.bench.engine.run import RunFiles
from mrtuner.bench.load.drivers import prepare
from mrtuner.bench.load.pgbench import PATIENCE_S
from mrtuner.bench.plan.cells import blocks, space_needed
from mrtuner.bench.plan.durability import Settings, unequal_delays, unequal_durability
from mrtuner.bench.plan.model import GridCell, Plan, Workload
from mrtuner.bench.record.archive import Archive
from mrtuner.bench.record.document import ElsewhereLine, NoteLine, SettingsLine
from mrtuner.bench.record.model import now
from mrtuner.bench.server import scratch
from mrtuner.bench.server.session import is_local, settings
from mrtuner.bench.server.variant import VariantServer
from mrtuner.errors import Refused
from mrtuner.host import Host
from mrtuner.postgres.connect import connect
from mrtuner.units import Bytes, pretty_bytes

if TYPE_CHECKING:
    from mrtuner.bench.record.document import MeasuredRun

_PREFIX: Final = "mrtuner_bench"
_QUIET_S: Final = 1.0
#: Free space to keep: for WAL up to max_wal_size, for growth and for the machine itself.
_RESERVE: Final = Bytes(2 * 1024**3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """How to carry out a plan, beyond what the plan says; the defaults are those of a grid."""

    what: str = "run"
    database: str | None = None  # the name of the one template; None: one for each scale
    theirs: bool = False  # the servers are a user's and already run: an error ends everything
    force: bool = False  # measure on a busy machine, and note it
    #: Asked after each block, with all runs that count so far: true ends the plan early. It may
    #: exchange the servers of the blocks to come.
    enough: Callable[[Sequence[MeasuredRun]], bool] | None = None
    overtime: int = PATIENCE_S  # seconds that pgbench may run beyond the planned end


class Preparation:
    """Checks and fills the servers of a plan; the only place that writes notes."""

    def __init__(
        self,
        plan: Plan,
        by_name: Mapping[str, VariantServer],
        archive: Archive,
        files: RunFiles,
        conduct: Conduct,
        progress: Progress | None,
    ) -> None:
        self.plan, self.servers, self.archive = plan, by_name, archive
        self.files, self.conduct = files, conduct
        self.settings: dict[str, Settings] = {}
        self.local = True  # whether all servers share this machine with us
        self._made: list[tuple[VariantServer, str]] = []
        self._noted: dict[str, None] = {}
        runs = sum(len(block.labels) for block in blocks(plan))
        made = 0 if plan.standing else len(self.sites())
        templates = made * sum(len(self.templates(scale)) for scale in plan.scales)
        self.teller = Teller(progress, templates + runs * STEPS_OF_A_RUN + 1)

    def prepare(self, host: Host | None, known: Mapping[str, Settings]) -> None:
        """Refuse what cannot be measured, then fill every site.

        `known` holds the settings recorded by the run that is continued, if any.
        """
        self._listen_for_others()
        for name in self.servers:
            self._survey(name, known.get(name, {}))
        if not self.local:
            self.archive.append(ElsewhereLine())
        self._require_equal_durability("are not")
        for text in unequal_delays(self.settings):
            self.note(text)
        if self.plan.standing:
            return
        self._check_space(host)
        for number, server in enumerate(self.sites()):
            with started(server):
                if number == 0 and self.conduct.theirs:
                    self._try_scripts(server)
                self._fill(server)

    def sites(self) -> list[VariantServer]:
        """One server for each set of data; variants may share their data."""
        first: dict[str, VariantServer] = {}
        for server in self.servers.values():
            first.setdefault(server.site, server)
        return list(first.values())

    def template(self, workload: str, scale: int) -> str:
        """Name of the database that is copied for runs of this workload at this scale."""
        place = self.plan.workloads.index(self.plan.by_name[workload]) + 1
        own = f"_w{place}" if self.plan.by_name[workload].own_tables else ""
        return self.conduct.database or f"{_PREFIX}_s{scale}{own}"

    def templates(self, scale: int) -> dict[str, str | None]:
        """Databases to make at a scale, each with the workload whose own tables it holds."""
        return {
            self.template(workload.name, scale): workload.name if workload.own_tables else None
            for workload in self.plan.workloads
        }

    def note(self, text: str) -> None:
        """Record a note and report it, each text only once."""
        if text not in self._noted:
            self._noted[text] = None
            self.archive.append(NoteLine(text, now()))
            self.teller.tell(Stage.NOTE, text)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._noted)

    def check_settings(self, name: str, found: Settings) -> None:
        """Check that settings are the same in every run; unequal durability ends everything."""
        known = self.settings[name]
        changed = sorted(key for key in {*known, *found} if known.get(key) != found.get(key))
        if not changed:
            return
        self.note(f"settings of {name} changed between runs: {', '.join(changed)}")
        self._keep_settings(name, found)
        self._require_equal_durability("are no longer")

    def leave_nothing(self) -> None:
        """Drop databases created on servers that are not ours; failures only become notes."""
        for server, template in self._made:
            if server.data is not None:
                continue  # our own server, removed as a whole
            self.teller.tell(Stage.CLEANING_UP, "dropping the databases")
            try:
                with self._reached(server), connect(server.dsn) as session:
                    scratch.drop(session, template)
            except Exception as error:  # must not hide an earlier one; the next run drops them
                self.note(
                    f"databases {template} and {scratch.copy_name(template)} may still be there"
                    f" ({error}); the next {self.conduct.what} drops them"
                )

    def _reached(self, server: VariantServer) -> AbstractContextManager[None]:
        return nullcontext() if self.conduct.theirs else started(server)

    def _listen_for_others(self) -> None:
        """Refuse a busy machine, or note it with `force`; no server of ours runs yet."""
        if min(self.plan.steal_limit, self.plan.foreign_limit) >= 1:
            return
        before = read(os.getpid())
        busy = busiest(_QUIET_S)
        noise = noise_between(before, read(os.getpid()))
        reasons = self.plan.disturbances(noise.steal, noise.foreign)
        if not reasons:
            return
        who = ", ".join(f"{name} {share:.1f} CPUs" for name, share in busy)
        said = f"{'; '.join(reasons)} ({who or 'no single program'})"
        if not self.conduct.force:
            raise Refused(
                f"the machine is busy: {said}",
                "Wait until it is quiet, or measure anyway with --force, which the record will "
                "mention.",
            )
        self.note(f"the machine was busy before the first run: {said}")

    def _survey(self, name: str, known: Settings) -> None:
        """Start a server once and check it, so that failures show before anything is measured."""
        server = self.servers[name]
        self.teller.tell(Stage.ACTIVATING, f"checking {name}")
        with started(server):
            with connect(server.dsn) as session:
                scratch.require_rights(session)
                found = settings(session)
                # Over a container's network the two ends have different addresses.
                self.local = self.local and (server.data is not None or is_local(session))
            # On the first server of ours, before the others are even started.
            ours = not (self.conduct.theirs or self.plan.standing)
            if name == self.plan.baseline.name and ours:
                self._try_scripts(server)
        before = known.get("server_version")
        if before not in (None, found.get("server_version")):
            raise Refused(
                f"the run was started with PostgreSQL {before} for {name}",
                "Continue with the same version, or start another run.",
            )
        self._keep_settings(name, found)

    def _keep_settings(self, name: str, found: Settings) -> None:
        self.settings[name] = found
        self.archive.append(SettingsLine(name, dict(found)))

    def _require_equal_durability(self, are_not: str) -> None:
        """Refuse variants that are not as durable as the first, except those marked `bound`."""
        first = self.plan.baseline.name
        equal = {first, *(one.name for one in self.plan.variants if not one.bound)}
        unequal = unequal_durability(
            {name: found for name, found in self.settings.items() if name in equal}
        )
        if unequal:
            raise Refused(
                f"the sides {are_not} equally durable: {'; '.join(unequal)}",
                "Set these to the same values: no variant may win by risking data. In a plan, "
                "bound = true shows the most that could be gained that way, and is never advice.",
            )

    def _check_space(self, host: Host | None) -> None:
        """Refuse databases too large for the disk: a full disk ruins more than a run."""
        need = space_needed(self.plan)
        size = Bytes(need * len(self.sites()))
        self.teller.tell(
            Stage.ANNOUNCED, f"databases of {pretty_bytes(size)} will be created and dropped"
        )
        for variant in self.plan.variants:
            if variant.disk is not None and need > variant.disk:
                raise Refused(
                    f"the databases need {pretty_bytes(need)}, but the disk of {variant.name} has "
                    f"{pretty_bytes(Bytes(variant.disk))}",
                    "Use smaller scales or a larger disk.",
                )
        scratch.require_space(size, _RESERVE, host if self.local else None)

    def _try_scripts(self, server: VariantServer) -> None:
        """Try every workload that is not built in, at scale 1, before hours are spent."""
        own = [workload for workload in self.plan.workloads if workload.builtin is None]
        template = f"{self.conduct.database or _PREFIX}_check"
        for workload in own:
            self.teller.tell(Stage.PREPARING, f"trying {workload.name}")
            self._make_template(server, template, 1, workload.name)
            dsn = scratch.in_database(server.dsn, template)
            self.files.driver(GridCell(workload.name, 1, 1)).try_out(dsn)
            with connect(server.dsn) as session:
                scratch.drop(session, template)

    def _fill(self, server: VariantServer) -> None:
        for scale in self.plan.scales:
            for template, owner in self.templates(scale).items():
                self.teller.tell(Stage.PREPARING, f"filling {template} at scale {scale}")
                self._make_template(server, template, scale, owner)
                self.teller.step += 1

    def _make_template(
        self, server: VariantServer, template: str, scale: int, owner: str | None
    ) -> None:
        with connect(server.dsn) as session:
            for name in scratch.remove_leftovers(session, template):
                self.note(
                    f"dropped database {name}, which an earlier {self.conduct.what} left behind"
                )
        self._made.append((server, template))
        own = self.plan.by_name[owner] if owner is not None else None
        # If another program brings its own tables, the load does not use pgbench's.
        of_pgbench = 1 if own and own.prepared else scale
        scratch.make_template(server.dsn, template, of_pgbench, self.files.program)
        if own is not None and own.own_tables:
            dsn = scratch.in_database(server.dsn, template)
            _set_up(own, dsn, scale)
            scratch.settle(dsn)


def _set_up(workload: Workload, dsn: str, scale: int) -> None:
    if workload.setup is not None:
        with connect(dsn, own_search_path=True) as session:
            session.execute(workload.setup.encode())
    prepare(workload, dsn, scale)


@contextmanager
def started(server: VariantServer) -> Iterator[None]:
    """Run the server during the block."""
    server.start()
    try:
        yield
    finally:
        server.stop()
