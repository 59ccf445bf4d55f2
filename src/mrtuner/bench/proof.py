"""Prove one configuration against another on a real server, by randomised paired runs.

Every block measures each arm once, in random order, from the same starting state: settings in
force, a fresh copy of one template, a warm-up that is dropped, a checkpoint. After the run a
timed CHECKPOINT shows how much writing it left for later.
"""

from __future__ import annotations

import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner import __version__
from mrtuner.bench import order, scratch
from mrtuner.bench.machine import Noise, Reading, noise_between, postmaster_of, read
from mrtuner.bench.pgbench import Run, find_pgbench, run
from mrtuner.bench.record import ArmRecord, Phase, Plan, Record, Sample, host_facts
from mrtuner.bench.server import (
    Counters,
    counted_checkpoint,
    counters,
    is_local,
    settings,
    timed_checkpoint,
)
from mrtuner.errors import BadValue, Refused
from mrtuner.host.model import Host
from mrtuner.postgres.connect import connect, translated
from mrtuner.units import pretty_bytes

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

#: What a committed transaction is worth after a crash; arms that differ here are not compared.
DURABILITY: Final = (
    "fsync", "full_page_writes", "synchronous_commit", "synchronous_standby_names",
    "wal_sync_method", "data_checksums",
)  # fmt: skip
#: These delay a commit without weakening it.
_COMMIT_DELAY: Final = ("commit_delay", "commit_siblings")
#: Above this the log itself becomes a load; a sample of it tells the percentiles as well.
_LOGGED_TRANSACTIONS: Final = 5_000_000
_QUIET_S: Final = 1.0
_STAGES_OF_A_RUN: Final = 4


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of the comparison.

    `activate` puts its settings in force, restarts the server if they need it, and returns when
    `dsn` answers again. It is called before every run of the arm, and whichever ran last stays
    active. Runs start alike only if it does the same each time and for every arm: it restarts
    the server for all of them, or for none.
    """

    name: str
    dsn: str = field(repr=False)  # may hold a password
    activate: Callable[[], None] = field(repr=False)


class Stage(StrEnum):
    """What the proof is doing."""

    ANNOUNCED = "announced"  # how big the databases will be
    PREPARING = "preparing"
    ACTIVATING = "activating"
    COPYING = "copying"
    WARMING_UP = "warming up"
    MEASURING = "measuring"
    MEASURED = "measured"
    REPEATING = "repeating"
    NOTE = "note"
    CLEANING_UP = "cleaning up"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Event:
    """For a progress bar: `step` of `steps` are done. A repeated block takes no further steps."""

    stage: Stage
    step: int
    steps: int
    text: str
    sample: Sample | None = None


def prove(
    arms: Sequence[Arm],
    plan: Plan,
    *,
    progress: Callable[[Event], None] | None = None,
    program: Path | None = None,
    host: Host | None = None,
) -> Record:
    """Measure the arms against each other; the first is the one to beat.

    It makes databases of its own on each server (`plan.database` and its working copy), refuses
    any of that name that no proof made, and drops them at the end, on an error and on Ctrl-C.
    Raises Refused for a standby and for arms of unequal durability, MissingPart without the
    right to create databases or to run CHECKPOINT, MrTunerError when a run fails.
    """
    names = [arm.name for arm in arms]
    if len(arms) < 2 or len({*names, _again(names[0])}) <= len(names):
        raise BadValue("a proof needs two arms or more, of different names", "Name each once.")
    script = plan.load.script_file
    program = program or find_pgbench()
    proof = _Proof(plan, {arm.name: arm for arm in arms}, progress or _unheard, program)
    started = now()
    with translated():
        proof.run_all(host)
    return Record(
        plan=plan,
        arms=tuple(ArmRecord(name=name, settings=proof.settings[name]) for name in names),
        calibration_order=_frozen(proof.calibration_order),
        order=_frozen(proof.order),
        samples=tuple(proof.samples),
        notes=tuple(proof.notes),
        local=proof.local,
        script=script.read_text(encoding="utf-8") if script else None,
        host=host_facts(host),
        kernel=f"{platform.system()} {platform.release()}",
        pgbench=pgbench_version(proof.program),
        mrtuner=__version__,
        started=started,
        ended=now(),
    )


def unequal_durability(settings: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Which settings make a commit worth less on one arm than on another, in words."""
    return list(_differences(settings, DURABILITY))


def _differences(settings: Mapping[str, Mapping[str, str]], names: Sequence[str]) -> Iterator[str]:
    for name in names:
        values = {arm: known.get(name, "unknown") for arm, known in settings.items()}
        if len(set(values.values())) > 1:
            yield f"{name} is " + ", ".join(
                f"{value or 'empty'} for {arm}" for arm, value in values.items()
            )


class _Proof:
    """A proof under way."""

    def __init__(
        self,
        plan: Plan,
        arms: Mapping[str, Arm],
        progress: Callable[[Event], None],
        program: Path,
    ) -> None:
        self.plan, self.arms, self.progress, self.program = plan, arms, progress, program
        first = next(iter(arms))
        self.labels = {name: name for name in arms} | {_again(first): first}
        self.order = order.blocks(list(arms), plan.blocks, plan.seed)
        # Another seed, so that calibration does not repeat the order of the comparison.
        self.calibration_order = order.blocks([first, _again(first)], plan.calibrate, plan.seed + 1)
        self.samples: list[Sample] = []
        self.notes: list[str] = []
        self.settings: dict[str, dict[str, str]] = {}
        self.ours: list[str] = []  # servers, by dsn, whose databases of our name are ours
        self.local = True
        self.sampling: float | None = None
        self.step = 0
        self.repeating = False
        runs = plan.blocks * len(arms) + plan.calibrate * 2
        self.steps = len(self.one_arm_a_server()) + runs * _STAGES_OF_A_RUN + 1

    def run_all(self, host: Host | None) -> None:
        try:
            self.prepare(host)
            self.run_blocks("calibration", self.calibration_order)
            self.run_blocks("comparison", self.order)
        finally:
            self.clean_up()
        self.tell(Stage.DONE, "done")

    # Telling

    def tell(self, stage: Stage, text: str, sample: Sample | None = None) -> None:
        self.progress(Event(stage, self.step, self.steps, text, sample))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
            self.tell(Stage.NOTE, text)

    def advance(self) -> None:
        self.step += not self.repeating

    # Before the first run

    def prepare(self, host: Host | None) -> None:
        """Look at every arm before anything is created."""
        for arm in self.arms.values():
            self.survey(arm)
        unequal = unequal_durability(self.settings)
        if unequal:
            raise Refused(
                f"the arms are not equally durable: {'; '.join(unequal)}",
                "Set these alike on both sides: a proof must not win by risking data.",
            )
        for delay in _differences(self.settings, _COMMIT_DELAY):
            self.note(f"{delay}: commits wait differently, nothing is lost by it")
        self.announce(host)
        for arm in self.one_arm_a_server():
            self.make_databases(arm)
        self.listen_for_others()

    def survey(self, arm: Arm) -> None:
        self.tell(Stage.ACTIVATING, f"looking at {arm.name}")
        arm.activate()
        with connect(arm.dsn) as session:
            scratch.require_rights(session)
            self.settings[arm.name] = settings(session)
            self.local = self.local and is_local(session)

    def announce(self, host: Host | None) -> None:
        size = scratch.size_of(self.plan.load)
        self.tell(Stage.ANNOUNCED, f"databases of {pretty_bytes(size)} will be made and dropped")
        free = host.disk_free.value if host and host.disk_free else None
        if self.local and free is not None and size > free:
            raise Refused(
                f"the databases need {pretty_bytes(size)}, the disk has {pretty_bytes(free)} free",
                "Take a smaller --scale.",
            )

    def one_arm_a_server(self) -> list[Arm]:
        first: dict[str, Arm] = {}
        for arm in self.arms.values():
            first.setdefault(arm.dsn, arm)
        return list(first.values())

    def make_databases(self, arm: Arm) -> None:
        database, load = self.plan.database, self.plan.load
        self.tell(Stage.PREPARING, f"filling {database} at scale {load.scale}")
        arm.activate()
        with connect(arm.dsn) as session:
            for name in scratch.remove_leftovers(session, database):
                self.note(f"an earlier proof had left database {name} behind; dropped")
        self.ours.append(arm.dsn)
        scratch.make_template(arm.dsn, database, load, self.program, self.plan.fillfactor)
        self.advance()

    def listen_for_others(self) -> None:
        """Warn of a busy machine while the server is idle."""
        if not self.plan.gated:
            return
        arm = next(iter(self.arms.values()))
        with connect(arm.dsn) as session:
            before = self.reading(session)
            time.sleep(_QUIET_S)
            noise = noise_between(before, self.reading(session))
        for reason in self.plan.disturbances(noise.steal, noise.foreign):
            self.note(f"the machine is not quiet before the first run: {reason}")

    # Blocks

    def run_blocks(self, phase: Phase, blocks: Sequence[Sequence[str]]) -> None:
        for number, labels in enumerate(blocks, 1):
            self.run_block(phase, number, labels)

    def run_block(self, phase: Phase, number: int, labels: Sequence[str]) -> None:
        """Run a block, and once more if others disturbed it. The second time counts anyway."""
        first = self.attempt(phase, number, labels, 1)
        reasons = [
            reason
            for sample in first
            for reason in self.plan.disturbances(sample.steal, sample.foreign)
        ]
        if not reasons:
            return
        self.reject(first, f"block repeated: {'; '.join(dict.fromkeys(reasons))}")
        self.tell(Stage.REPEATING, f"{phase} block {number} once more: {reasons[0]}")
        self.repeating = True
        self.attempt(phase, number, labels, 2)
        self.repeating = False

    def attempt(
        self, phase: Phase, number: int, labels: Sequence[str], attempt: int
    ) -> list[Sample]:
        taken = []
        for position, label in enumerate(labels, 1):
            blank = _Place(phase, number, attempt, position, label, self.labels[label])
            sample = self.measure(blank)
            self.samples.append(sample)
            taken.append(sample)
            self.tell(Stage.MEASURED, f"{label}: {sample.run.tps:.0f} tps", sample)
        return taken

    def reject(self, samples: Sequence[Sample], reason: str) -> None:
        self.samples[-len(samples) :] = [replace(sample, rejected=reason) for sample in samples]

    # One run

    def measure(self, place: _Place) -> Sample:
        arm, seed = self.arms[place.arm], self.plan.seed + place.block
        where = f"{place.phase} block {place.block}, {place.label}"
        started = now()
        self.tell(Stage.ACTIVATING, where)
        arm.activate()
        self.advance()
        self.tell(Stage.COPYING, where)
        dsn = scratch.in_database(arm.dsn, self.fresh_database(arm))
        self.advance()
        self.tell(Stage.WARMING_UP, where)
        warmup_tps = self.warm_up(dsn, seed)
        self.advance()
        self.tell(Stage.MEASURING, where)
        with connect(dsn) as session:
            self.check_settings(arm, settings(session))
            outcome = self.watched_run(session, dsn, seed)
        self.advance()
        return outcome.sample(place, seed=seed, started=started, warmup_tps=warmup_tps)

    def fresh_database(self, arm: Arm) -> str:
        if self.plan.load.reads_only:
            return self.plan.database
        with connect(arm.dsn) as session:
            return scratch.fresh_copy(session, self.plan.database)

    def warm_up(self, dsn: str, seed: int) -> float | None:
        """Run the load for a while; the first time also decides how much is logged."""
        if not self.plan.warmup:
            return None
        load = replace(self.plan.load, seconds=self.plan.warmup)
        # Another seed: the same draws would touch the same rows again.
        tps = run(dsn, load, seed=~seed & 0x7FFFFFFF, program=self.program).tps
        if self.sampling is None:
            self.sampling = sampling_for(tps * self.plan.load.seconds)
        return tps

    def check_settings(self, arm: Arm, now: dict[str, str]) -> None:
        """The same settings every time, or it says so; unequal durability ends the proof."""
        known = self.settings[arm.name]
        changed = sorted(name for name in known | now if known.get(name) != now.get(name))
        if changed:
            self.note(f"settings of {arm.name} changed between runs: {', '.join(changed)}")
        self.settings[arm.name] = now
        unequal = unequal_durability(self.settings)
        if unequal:
            raise Refused(
                f"the arms are no longer equally durable: {'; '.join(unequal)}",
                "Look for ALTER ROLE or ALTER DATABASE … SET, then prove again.",
            )

    def watched_run(self, session: Connection, dsn: str, seed: int) -> _Outcome:
        counted_checkpoint(session)
        reading, before = self.reading(session), counters(session)
        measured = run(
            dsn, self.plan.load, seed=seed, sampling=self.sampling or 1.0, program=self.program
        )
        after, noise = counters(session), noise_between(reading, self.reading(session))
        return _Outcome(measured, timed_checkpoint(session), before, after, noise)

    def reading(self, session: Connection) -> Reading | None:
        """What CPU went where so far; a foreign machine's process ids mean nothing here."""
        return read(postmaster_of(session.info.backend_pid) if self.local else None)

    # Afterwards

    def clean_up(self) -> None:
        """Drop our databases; what cannot be dropped is said, and never hides an error."""
        for dsn in self.ours:
            self.tell(Stage.CLEANING_UP, "dropping the databases")
            try:
                with connect(dsn) as session:
                    scratch.drop(session, self.plan.database)
            except Exception as error:  # whatever it is, the next proof drops them
                self.note(
                    f"databases {self.plan.database} and {scratch.copy_name(self.plan.database)}"
                    f" may still be there ({error}); the next proof drops them"
                )
        self.step = self.steps


@dataclass(frozen=True, slots=True)
class _Place:
    phase: Phase
    block: int
    attempt: int
    position: int
    label: str
    arm: str


@dataclass(frozen=True, slots=True)
class _Outcome:
    run: Run
    checkpoint: float
    before: Counters
    after: Counters
    noise: Noise

    def sample(self, place: _Place, *, seed: int, started: str, warmup_tps: float | None) -> Sample:
        return Sample(
            phase=place.phase,
            block=place.block,
            attempt=place.attempt,
            position=place.position,
            label=place.label,
            arm=place.arm,
            seed=seed,
            started=started,
            warmup_tps=warmup_tps,
            run=self.run,
            checkpoint=self.checkpoint,
            wal_bytes=self.after.wal - self.before.wal,
            checkpoints_timed=self.after.timed - self.before.timed,
            checkpoints_requested=self.after.requested - self.before.requested,
            steal=self.noise.steal,
            foreign=self.noise.foreign,
        )


def sampling_for(expected: float) -> float:
    """The share of so many transactions to log, one figure."""
    if expected <= _LOGGED_TRANSACTIONS:
        return 1.0
    return float(f"{_LOGGED_TRANSACTIONS / expected:.0e}")


def _again(name: str) -> str:
    """The label of an arm's second run in a calibration block."""
    return f"{name}'"


def _unheard(event: Event) -> None:
    """Progress that nobody asked for."""


def pgbench_version(program: Path) -> str:
    """18.6"""
    printed = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return printed.stdout.strip().removeprefix("pgbench (PostgreSQL) ")


def _frozen(blocks: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(block) for block in blocks)


def now() -> str:
    """The moment in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def seconds_expected(arms: int, plan: Plan) -> int:
    """A guess at the whole length, restarts and copies at a few seconds a run."""
    runs = plan.blocks * arms + plan.calibrate * 2
    return round(runs * (plan.warmup + plan.load.seconds + 4 + plan.load.scale * 0.02))
