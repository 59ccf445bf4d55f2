"""What can be asked of a plan: each input declared once, for Python, options and checks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Annotated, Any, Final, TypedDict, Unpack

from mrtuner.errors import BadValue
from mrtuner.inputs import (
    MOST_MEMORY,
    MOST_SESSIONS,
    Choice,
    Count,
    CpuCount,
    Input,
    Rate,
    Time,
    checked,
    declared,
)
from mrtuner.inputs import Size as Memory
from mrtuner_pods.planning.servers import EVENT_LOOPS, Server, event_loop_refused
from mrtuner_pods.waiting.queues import Layout
from mrtuner_pods.waiting.routing import Routing
from mrtuner_pods.waiting.service_times import MOST_VARIATION, Times
from mrtuner_pods.waiting.stages import Work
from mrtuner_pods.wording import milliseconds

#: Longest time that is accepted [s].
_LONGEST: Final = 600.0
_MOST_RATE: Final = 1_000_000.0
_MOST_PODS: Final = 5_000
_MOST_WORKERS: Final = 256
_MOST_THREADS: Final = 512
#: Most busy workers that can be simulated within a few seconds.
MOST_BUSY: Final = 1_000
_LAYOUT = re.compile(r"\s*([0-9]{1,5})\s*[x×]\s*([0-9]{1,4})(?:\s*[x×]\s*([0-9]{1,4}))?\s*")
_LAYOUTS: Final = "Give PODSxWORKERS or PODSxWORKERSxTHREADS, such as 4x2 or 4x2x5."
#: Parts of a service time may exceed it by this share: rounding errors.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Input):
    """A number in a range."""

    least: float = 0.0
    most: float
    metavar: str = "NUMBER"

    def parse(self, name: str, text: str, /) -> float:
        try:
            return float(text)
        except ValueError:
            return self.check(name, text)  # which refuses it

    def check(self, name: str, value: Any, /) -> float:
        """Return the number."""
        known = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not known or not isfinite(value) or not self.least <= value <= self.most:
            raise BadValue(
                f"{name} {value} is not a number from {self.least:g} to {self.most:g}",
                "Give the standard deviation divided by the mean, such as 1.",
            )
        return float(value)

    def schema(self) -> dict[str, Any]:
        return {"type": "number", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods(Input):
    """Pods and what is in each: 4x2, or 4x2x5 with threads."""

    metavar: str = "PxW[xT]"

    def check(self, name: str, value: Any, /) -> tuple[int, int, int]:
        """Return pods, workers, threads."""
        if isinstance(value, tuple):
            value = "x".join(map(str, value))
        match = _LAYOUT.fullmatch(str(value))
        if match is None:
            raise BadValue(f"cannot read {name} {value!r}", _LAYOUTS)
        pods, workers, threads = (int(text or 1) for text in match.groups())
        within = pods <= _MOST_PODS and workers <= _MOST_WORKERS and threads <= _MOST_THREADS
        if not (min(pods, workers, threads) >= 1 and within):
            raise BadValue(f"{name} {value!r} is out of range", _LAYOUTS)
        return pods, workers, threads

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": _LAYOUT.pattern}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKind(Choice):
    """An application server."""

    def check(self, name: str, value: Any, /) -> StrEnum:
        if (word := str(value).lower()) in EVENT_LOOPS:
            raise event_loop_refused(word)
        return Choice.check(self, name, value)


class PlanInputs(TypedDict, total=False):
    """The inputs of a plan; one that is None or left out is not given."""

    rate: Annotated[
        str | float | None, Rate(most=_MOST_RATE, help="Requests to serve, such as 400/s")
    ]
    service_time: Annotated[
        str | float | None,
        Time(unit=True, most=_LONGEST, help="Mean time of a request that does not wait"),
    ]
    variation: Annotated[
        float | None,
        Number(
            most=MOST_VARIATION,
            default="1",
            help="Standard deviation of the service time divided by its mean",
        ),
    ]
    bursts: Annotated[
        float | None,
        Number(
            most=MOST_VARIATION,
            default="1: requests arrive independently",
            help="Standard deviation of the time between two requests divided by its mean",
        ),
    ]
    wait_p95: Annotated[
        str | float | None,
        Time(
            unit=True,
            most=_LONGEST,
            default="the service time",
            help="Longest wait allowed for 95 % of the requests",
        ),
    ]
    routing: Annotated[
        str | None,
        Choice(words=Routing, default="random", help="How requests are spread over pods"),
    ]
    server: Annotated[
        str | None,
        ServerKind(
            words=Server,
            default="gunicorn",
            help="Application server (puma is Puma 7 or 8, puma-6 is Puma 5 or 6)",
        ),
    ]
    cpu_time: Annotated[
        str | float | None,
        Time(
            unit=True,
            most=_LONGEST,
            default="all that is not in the database",
            help="Part of the service time spent on the application's CPU",
        ),
    ]
    database_time: Annotated[
        str | float | None,
        Time(unit=True, most=_LONGEST, help="Part of the service time spent in the database"),
    ]
    pods: Annotated[int | None, Count(most=_MOST_PODS, help="Plan for exactly this many pods")]
    workers: Annotated[
        int | None, Count(most=_MOST_WORKERS, help="Plan for exactly this many workers in a pod")
    ]
    threads: Annotated[
        int | None, Count(most=_MOST_THREADS, help="Plan for exactly this many threads in a worker")
    ]
    most_workers: Annotated[
        int | None,
        Count(most=_MOST_WORKERS, default="8", help="Most workers per pod"),
    ]
    now: Annotated[str | None, Pods(help="Current pods x workers x threads, such as 4x2")]
    database_cpus: Annotated[int | None, CpuCount(help="CPUs of the database")]
    pooler: Annotated[
        int | None,
        Count(most=MOST_SESSIONS, help="Total server connections of the transaction poolers"),
    ]
    max_connections: Annotated[
        int | None,
        Count(most=MOST_SESSIONS, help="Connections that the database admits from these pods"),
    ]
    master_memory: Annotated[
        str | int | None, Memory(most=MOST_MEMORY, help="Memory of the master process at its peak")
    ]
    worker_memory: Annotated[
        str | int | None,
        Memory(most=MOST_MEMORY, help="Proportional set size of one worker at its peak"),
    ]
    pod_memory: Annotated[
        str | int | None,
        Memory(most=MOST_MEMORY, help="Memory limit of a pod, above which the kernel kills it"),
    ]
    logins: Annotated[
        str | float | None,
        Rate(most=_MOST_RATE, help="Logins per second that the database can take, such as 300/s"),
    ]
    seed: Annotated[
        int | None, Count(most=2**31, default="1", help="Seed of the simulation, to vary it")
    ]


#: The declarations by name, in the order in which `--help` lists them.
PLAN_INPUTS: Final[Mapping[str, Input]] = declared(PlanInputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A load, what is known of it, and what is fixed. Times in seconds."""

    rate: float
    service: Times
    work: Work
    cpu_given: bool
    bursts: float
    target: float
    routing: Routing
    server: Server
    pods: int | None
    workers: int | None
    threads: int | None
    most_workers: int
    now: Layout | None
    database_cpus: int | None
    pooler: int | None
    max_connections: int | None
    master_memory: int | None
    worker_memory: int | None
    pod_memory: int | None
    logins: float | None
    seed: int
    now_limit: float | None = None  # CPU limit of a pod that runs now [CPUs]
    now_pool: int | None = None  # connections of a worker that runs now
    now_memory: int | None = None  # memory limit of a pod that runs now [bytes]

    @property
    def busy(self) -> float:
        return self.rate * self.service.mean


def asked(samples: Sequence[float] = (), **given: Unpack[PlanInputs]) -> Question:
    """Return the checked question; BadValue names an input that is invalid or missing.

    `samples` are measured service times [s], instead of `service_time` and `variation`.
    """
    said = checked(given, PLAN_INPUTS)
    if "rate" not in said:
        raise BadValue("no rate is given", "Give the requests to be served, such as 400/s.")
    service = _service(samples, said)
    server, work = said.get("server", Server.GUNICORN), _work(service.mean, said)
    now = said.get("now")
    question = Question(
        rate=said["rate"],
        service=service,
        work=work,
        cpu_given="cpu_time" in said,
        bursts=said.get("bursts", 1.0),
        target=said.get("wait_p95", service.mean),
        routing=said.get("routing", Routing.RANDOM),
        server=server,
        most_workers=said.get("most_workers", 8),
        now=None if now is None else server.facts.layout_by_default(*now),
        seed=said.get("seed", 1),
        **{name: said.get(name) for name in _AS_GIVEN},
    )
    _check_server(question)
    if question.busy > MOST_BUSY:
        raise BadValue(
            f"{question.rate:g}/s of {milliseconds(service.mean)} keep {question.busy:,.0f} "
            f"workers busy, more than the {MOST_BUSY:,} that can be simulated",
            "Check the units, or plan a part of the load.",
        )
    return question


_AS_GIVEN: Final = (
    "pods", "workers", "threads", "database_cpus", "pooler", "max_connections", "master_memory",
    "worker_memory", "pod_memory", "logins",
)  # fmt: skip


def _service(samples: Sequence[float], said: Mapping[str, Any]) -> Times:
    if samples and ("service_time" in said or "variation" in said):
        raise BadValue(
            "measured times and service_time or variation are both given", "Give one of them."
        )
    if samples:
        return Times.measured(samples)
    if "service_time" not in said:
        raise BadValue(
            "no service time is given", "Give its mean, such as 27ms, or a file of measured times."
        )
    return Times(mean=said["service_time"], variation=said.get("variation", 1.0))


def _work(mean: float, said: Mapping[str, Any]) -> Work:
    database = said.get("database_time", 0.0)
    cpu = said.get("cpu_time", max(0.0, mean - database))
    if cpu + database > mean * (1 + _ROUNDING):
        raise BadValue(
            f"{milliseconds(cpu)} of CPU and {milliseconds(database)} in the database are more "
            f"than the service time of {milliseconds(mean)}",
            "Give parts of the mean service time.",
        )
    return Work(cpu=min(1.0, cpu / mean), database=min(1.0, database / mean))


def _check_server(question: Question) -> None:
    facts, title = question.server.facts, question.server.facts.title
    threads = max(question.threads or 1, question.now.threads if question.now else 1)
    workers = max(question.workers or 1, question.now.workers if question.now else 1)
    if threads > 1 and not facts.threads:
        raise BadValue(
            f"{title} has one thread in a worker, not {threads}", "Use --server gthread or puma."
        )
    if workers > 1 and facts.one_process:
        raise BadValue(
            f"{question.server} is one process per pod, not {workers}",
            "Give its threads: --threads N, and --now PODSx1xTHREADS.",
        )
    if question.database_cpus and question.work.database == 0:
        raise BadValue(
            "the database's CPUs are given, but no time in it", "Give --database-time as well."
        )
    if question.pooler and question.work.database == 0:
        raise BadValue("a pooler is given, but no time in the database", "Give --database-time.")
    if question.worker_memory is None and question.master_memory is not None:
        raise BadValue(
            "the memory of a pod needs that of its workers", "Give --worker-memory as well."
        )
    if question.pod_memory is not None and question.worker_memory is None:
        raise BadValue(
            "the memory of a pod is given, but not what a worker takes of it",
            "Give --worker-memory as well.",
        )
