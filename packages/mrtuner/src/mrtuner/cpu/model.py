"""The plan and the record of a consistency test. Durations in seconds, shares from 0 to 1."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from mrtuner.described import Doc


class Mode(StrEnum):
    """What the workers do."""

    INTEGER = "integer"
    GZIP = "gzip"
    SQL = "sql"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPlan:
    """What was to be measured."""

    mode: Annotated[Mode, Doc("the workers' work")]
    counts: Annotated[tuple[int, ...], Doc("numbers of workers")]
    repeats: Annotated[int, Doc("trials with each number of workers")]
    seconds: Annotated[float, Doc("length of a worker's work when it runs alone")]
    pieces: Annotated[int, Doc("into which the work is divided")]
    seed: Annotated[int, Doc("seed of the random order")]
    pairs: Annotated[bool, Doc("whether CPUs are tried two by two")]
    forced: Annotated[bool, Doc("on a busy machine too, with `--force`")]


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
class TrialWeather:
    """Other activity on these CPUs during a trial."""

    foreign: Annotated[float | None, Doc("share of their time that went to other work")]
    steal: Annotated[float | None, Doc("share that the hypervisor gave to others")]
    throttled: Annotated[int | None, Doc("periods in which a quota was exhausted")]
    mhz: Annotated[float | None, Doc("mean frequency [MHz]")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of a number of concurrent workers."""

    count: int
    workers: tuple[Worker, ...]
    weather: TrialWeather
    rejected: str | None = None  # why it is invalid; fixed rules, see `gauges.objection`


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPair:
    """Two CPUs working at the same time."""

    first: Annotated[int, Doc("a CPU")]
    second: Annotated[int, Doc("the other")]
    inflation: Annotated[float, Doc("CPU time of the work with both busy, over `solo`")]
    siblings: Annotated[bool, Doc("whether they slow each other as threads of one core do")]


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
class CpuTopology:
    """Which of these CPUs are threads of one core, according to the kernel."""

    cores: Annotated[tuple[tuple[int, ...], ...], Doc("the CPUs of each core; empty if unknown")]
    threads: Annotated[int | None, Doc("threads of a core, on the whole machine")]
    source: Annotated[str, Doc("where this was read")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPlace:
    """Where the test ran."""

    platform: Annotated[str, Doc("linux, ec2, kubernetes, or the provider of a server")]
    model: Annotated[str | None, Doc("such as m7i.large")]
    architecture: Annotated[str | None, Doc("such as x86_64")]
    evidence: Annotated[str, Doc("the evidence for it")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Everything planned and seen, without a verdict."""

    began: str  # ISO 8601, UTC
    plan: CpuPlan
    usable: Usable
    topology: CpuTopology
    place: CpuPlace
    kernel: str | None
    solo: float | None  # CPU seconds of the same work alone, pinned; only with pairs
    pairs: tuple[CpuPair, ...]
    trials: tuple[Trial, ...]
    notes: tuple[str, ...]  # what weakens the test
