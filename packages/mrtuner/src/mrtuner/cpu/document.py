"""A consistency test and its diagnosis as JSON: ``mrtuner.cpu/1``."""

from __future__ import annotations

from typing import Annotated, Literal

from mrtuner.cpu.advice import advice
from mrtuner.cpu.diagnose import CpuDiagnosis, diagnose
from mrtuner.cpu.model import CpuPair, CpuPlace, CpuPlan, CpuTopology, Record, TrialWeather
from mrtuner.documents import Doc, Document, Struct, convert, field


class UsableCpus(Struct):
    """The CPUs that can really be used."""

    cpus: Annotated[list[int], Doc("their numbers; empty if unknown")]
    may_run_on: Annotated[int, Doc("how many they are")]
    count: Annotated[int | float, Doc("CPUs' worth of time: less under a quota")]
    online: Annotated[int, Doc("CPUs of the machine")]
    bound: Annotated[Literal["cpuset", "affinity", "quota"] | None, Doc("what limits them")]
    source: Annotated[str, Doc("where this was read")]
    words: Annotated[str, Doc("the same in words")]


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


class CpuTrial(Struct):
    """A number of workers at the same time."""

    count: Annotated[int, Doc("number of workers")]
    workers: Annotated[list[WorkerRun], Doc("each of them")]
    weather: Annotated[TrialWeather, Doc("other activity meanwhile")]
    rejected: Annotated[str | None, Doc("why the trial does not count; null: it does")]


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
        plan=record.plan,
        usable=convert(record.usable, UsableCpus),
        topology=record.topology,
        place=record.place,
        kernel=record.kernel,
        solo=record.solo,
        pairs=list(record.pairs),
        trials=[convert(trial, CpuTrial) for trial in record.trials],
        notes=list(record.notes),
        diagnosis=found,
        advice=list(advice(record, found)),
    )
