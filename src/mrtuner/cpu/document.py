"""A consistency test and its diagnosis as JSON: ``mrtuner.cpu/1``."""

from __future__ import annotations

from typing import Annotated, Literal

from mrtuner.cpu.advice import advice
from mrtuner.cpu.diagnose import Cause, diagnose
from mrtuner.cpu.model import Mode, Record
from mrtuner.documents import Doc, Document, Struct, convert, field


class CpuPlan(Struct):
    """What was to be measured."""

    mode: Annotated[Mode, Doc("the workers' work")]
    counts: Annotated[list[int], Doc("numbers of workers")]
    repeats: Annotated[int, Doc("trials with each number of workers")]
    seconds: Annotated[float, Doc("length of a worker's work when it runs alone")]
    pieces: Annotated[int, Doc("into which the work is divided")]
    seed: Annotated[int, Doc("seed of the random order")]
    pairs: Annotated[bool, Doc("whether CPUs are tried two by two")]
    forced: Annotated[bool, Doc("on a busy machine too, with `--force`")]


class UsableCpus(Struct):
    """The CPUs that can really be used."""

    cpus: Annotated[list[int], Doc("their numbers; empty if unknown")]
    may_run_on: Annotated[int, Doc("how many they are")]
    count: Annotated[int | float, Doc("CPUs' worth of time: less under a quota")]
    online: Annotated[int, Doc("CPUs of the machine")]
    bound: Annotated[Literal["cpuset", "affinity", "quota"] | None, Doc("what limits them")]
    source: Annotated[str, Doc("where this was read")]
    words: Annotated[str, Doc("the same in words")]


class CpuTopology(Struct):
    """Which of these CPUs are threads of one core, according to the kernel."""

    cores: Annotated[list[list[int]], Doc("the CPUs of each core; empty if unknown")]
    threads: Annotated[int | None, Doc("threads of a core, on the whole machine")]
    source: Annotated[str, Doc("where this was read")]


class CpuPlace(Struct):
    """Where the test ran."""

    platform: Annotated[str, Doc("linux, ec2, kubernetes, or the provider of a server")]
    model: Annotated[str | None, Doc("such as m7i.large")]
    architecture: Annotated[str | None, Doc("such as x86_64")]
    evidence: Annotated[str, Doc("the evidence for it")]


class CpuPair(Struct):
    """Two CPUs working at the same time."""

    first: Annotated[int, Doc("a CPU")]
    second: Annotated[int, Doc("the other")]
    inflation: Annotated[float, Doc("CPU time of the work with both busy, over `solo`")]
    siblings: Annotated[bool, Doc("whether they slow each other as threads of one core do")]


class WorkerRun(Struct):
    """A worker's run: `wall` = `cpu` + `delay` + `rest` [s]."""

    wall: Annotated[float, Doc("from the common start to the end of its work")]
    cpu: Annotated[float | None, Doc("CPU time")]
    delay: Annotated[float | None, Doc("runnable, but not running")]
    rest: Annotated[float | None, Doc("neither: stolen from the machine, or asleep")]
    switches: Annotated[int | None, Doc("involuntary context switches")]
    cpus: Annotated[list[int | None], Doc("the CPU it was on after each piece of its work")]
    #: Older records, which the documentation keeps, lack it.
    pieces: Annotated[list[float], Doc("the time of each piece; their sum is `wall`")] = field(
        default_factory=list
    )


class TrialWeather(Struct):
    """Other activity on these CPUs during a trial."""

    foreign: Annotated[float | None, Doc("share of their time that went to other work")]
    steal: Annotated[float | None, Doc("share that the hypervisor gave to others")]
    throttled: Annotated[int | None, Doc("periods in which a quota was exhausted")]
    mhz: Annotated[float | None, Doc("mean frequency [MHz]")]


class CpuTrial(Struct):
    """A number of workers at the same time."""

    count: Annotated[int, Doc("number of workers")]
    workers: Annotated[list[WorkerRun], Doc("each of them")]
    weather: Annotated[TrialWeather, Doc("other activity meanwhile")]
    rejected: Annotated[str | None, Doc("why the trial does not count; null: it does")]


class CpuLevel(Struct):
    """The trials with one number of workers.

    Times are means over workers and trials [s]; figures of unevenness are medians over trials.
    """

    count: Annotated[int, Doc("number of workers")]
    trials: Annotated[int, Doc("trials that count")]
    wall: Annotated[float, Doc("time of a worker")]
    fastest: Annotated[float, Doc("median of the fastest worker")]
    slowest: Annotated[float, Doc("median of the slowest worker")]
    cpu: Annotated[float | None, Doc("CPU time")]
    delay: Annotated[float | None, Doc("runnable, but not running")]
    rest: Annotated[float | None, Doc("neither")]
    spread: Annotated[float, Doc("V: slowest / fastest − 1")]
    chance: Annotated[float, Doc("V that chance alone exceeds once in twenty times")]
    variation: Annotated[float, Doc("coefficient of variation")]
    fairness: Annotated[float, Doc("Jain's index")]
    slow_share: Annotated[float, Doc("share of the workers that are slow")]
    slow_ratio: Annotated[float, Doc("time of the slow workers over that of the others")]
    throughput: Annotated[float, Doc("Σ 1 / `wall` of the workers, mean over trials")]
    throttled: Annotated[float | None, Doc("periods in which a quota was exhausted, per trial")]
    steal: Annotated[float | None, Doc("share of time that the hypervisor gave to others")]
    foreign: Annotated[float | None, Doc("share of time that went to other work")]


class Knee(Struct):
    """A number of workers beyond which one more brings less.

    `cpu`, `delay` and `rest` are their growth from there to the next level [s].
    """

    at: Annotated[int, Doc("number of workers")]
    before: Annotated[float, Doc("work that one more worker brings up to there; one alone is 1")]
    after: Annotated[float, Doc("work that one more worker brings beyond")]
    bic_fall: Annotated[float, Doc("fall of the Bayesian information criterion by this knee")]
    cause: Annotated[Cause, Doc("why workers get slower")]
    cpu: Annotated[float | None, Doc("growth of CPU time")]
    delay: Annotated[float | None, Doc("growth of the time runnable, but not running")]
    rest: Annotated[float | None, Doc("growth of the rest")]
    throttled: Annotated[
        float | None, Doc("periods in which a quota was exhausted, per trial of the next level")
    ]


class SiblingThreads(Struct):
    """Which CPUs are threads of one core."""

    per_core: Annotated[int | None, Doc("threads of a core")]
    how: Annotated[str, Doc("how that is known")]
    pairs: Annotated[list[tuple[int, int]], Doc("siblings that were found")]
    hidden: Annotated[bool, Doc("whether the kernel is not told of them")]
    shared: Annotated[bool, Doc("whether two usable CPUs belong to one core")]


class CpuDiagnosis(Struct):
    """What the trials mean."""

    levels: Annotated[list[CpuLevel], Doc("one for each number of workers")]
    bends: Annotated[list[Knee], Doc("where one more worker begins to bring less")]
    effective_cores: Annotated[
        float | None, Doc("the most work at once, relative to one worker alone")
    ]
    best: Annotated[int | None, Doc("the fewest workers within 5 % of that")]
    threads: Annotated[SiblingThreads, Doc("threads of one core")]
    identity: Annotated[
        float | None, Doc("the largest `rest` over `wall`: how well the parts add up")
    ]
    incomplete: Annotated[list[int], Doc("numbers of workers without a trial that counts")]


class CpuDocument(Document, tag="mrtuner.cpu/1"):
    """Written by `mrtuner cpu --json`: what was planned and seen, then what it means.

    Durations are seconds, shares fractions of one; what could not be seen is null.
    """

    began: Annotated[str, Doc("ISO 8601, UTC")]
    plan: Annotated[CpuPlan, Doc("what was to be measured")]
    usable: Annotated[UsableCpus, Doc("the CPUs that can be used")]
    topology: Annotated[CpuTopology, Doc("their cores, according to the kernel")]
    place: Annotated[CpuPlace, Doc("where the test ran")]
    kernel: Annotated[str | None, Doc("release of the kernel")]
    solo: Annotated[float | None, Doc("CPU time of the work of a pair alone; null without pairs")]
    pairs: Annotated[list[CpuPair], Doc("CPUs tried two by two")]
    trials: Annotated[list[CpuTrial], Doc("in the order in which they ran")]
    notes: Annotated[list[str], Doc("what weakens the test")]
    diagnosis: Annotated[CpuDiagnosis, Doc("what the trials mean")]
    advice: Annotated[list[str], Doc("what to do, the most useful first")]


def cpu_document(record: Record) -> CpuDocument:
    """Return all observations and their interpretation; a report needs nothing else."""
    found = diagnose(record)
    return CpuDocument(
        began=record.began,
        plan=convert(record.plan, CpuPlan),
        usable=convert(record.usable, UsableCpus),
        topology=convert(record.topology, CpuTopology),
        place=convert(record.place, CpuPlace),
        kernel=record.kernel,
        solo=record.solo,
        pairs=[convert(pair, CpuPair) for pair in record.pairs],
        trials=[convert(trial, CpuTrial) for trial in record.trials],
        notes=list(record.notes),
        diagnosis=convert(found, CpuDiagnosis),
        advice=list(advice(record, found)),
    )
