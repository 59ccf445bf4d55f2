"""The plan and the record of a consistency test. Durations in seconds, shares from 0 to 1."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """What the workers do."""

    INTEGER = "integer"
    GZIP = "gzip"
    SQL = "sql"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlan:
    """What to measure, fixed before the first worker starts."""

    mode: Mode
    counts: tuple[int, ...]  # numbers of workers
    repeats: int
    seconds: float  # one worker's work, if it runs alone
    pieces: int  # into which the work is divided
    seed: int
    pairs: bool  # try the CPUs in pairs
    forced: bool  # measure on a busy machine too


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker's run, from the common start to its last piece: wall = cpu + delay + rest."""

    pieces: tuple[float, ...]
    cpu: float | None
    delay: float | None  # runnable, but not running
    switches: int | None  # involuntary
    cpus: tuple[int | None, ...]  # the CPU it was on after each piece

    @property
    def wall(self) -> float:
        """Seconds from the start to the end of its work."""
        return sum(self.pieces)

    @property
    def rest(self) -> float | None:
        """Time neither running nor runnable: stolen from the machine, or asleep."""
        if self.cpu is None or self.delay is None:
            return None
        return self.wall - self.cpu - self.delay


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Other activity on our CPUs while workers ran; None where unknown."""

    foreign: float | None  # share of our CPUs' time used by others
    steal: float | None  # share that the hypervisor gave to others
    throttled: int | None  # periods in which a quota throttled us
    mhz: float | None  # mean frequency


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of a number of concurrent workers."""

    count: int
    workers: tuple[Worker, ...]
    weather: Weather
    rejected: str | None = None  # why it is invalid; fixed rules, see `gauges.objection`


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two CPUs working together: CPU time of the same work, over that of one alone."""

    first: int
    second: int
    inflation: float
    siblings: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Usable:
    """The CPUs that can really be used, and what limits them.

    `cpus` is empty where the system does not show which they are (macOS, a remote server).
    """

    cpus: tuple[int, ...]
    may_run_on: int
    count: float  # CPUs' worth of time: fractional under a quota
    online: int
    bound: str | None  # cpuset, affinity, quota; None without a limit
    source: str

    @property
    def words(self) -> str:
        """``1 of 8, because of the cpuset (cgroup v2 cpuset.cpus.effective of /pod)``."""
        if self.bound is None:
            return f"{self.count:g} ({self.source})"
        return f"{self.count:g} of {self.online}, because of the {self.bound} ({self.source})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Which of our CPUs are threads of one core, according to the kernel."""

    cores: tuple[tuple[int, ...], ...]  # only CPUs that we may use; empty if unknown
    threads: int | None  # per core, on the whole machine
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuHost:
    """Where the test runs, as far as it matters for advice."""

    platform: str  # linux, ec2, kubernetes, or a name of `postgres.platform`
    model: str | None  # m7i.large
    architecture: str | None
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Everything planned and seen, without a verdict."""

    began: str  # ISO 8601, UTC
    plan: TrialPlan
    usable: Usable
    topology: Topology
    place: CpuHost
    kernel: str | None
    solo: float | None  # CPU seconds of the same work alone, pinned; only with pairs
    pairs: tuple[Pair, ...]
    trials: tuple[Trial, ...]
    notes: tuple[str, ...]  # what weakens the test
