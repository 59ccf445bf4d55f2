"""A plan of a benchmark as JSON: ``mrtuner.bench.plan/1``, and how long it would take."""

from __future__ import annotations

from typing import Annotated, Literal

from mrtuner.bench.load.pgbench import Protocol
from mrtuner.bench.plan.model import Connect, JudgedBy, Network, Storage
from mrtuner.documents import Doc, Document, Struct, field


class WorkloadScript(Struct):
    """An SQL script in pgbench's language."""

    name: Annotated[str, Doc("its name")]
    text: Annotated[str, Doc("the script")]
    weight: Annotated[int, Doc("how often it is chosen, beside the others")] = 1


class SysbenchWorkload(Struct):
    """A script of sysbench."""

    script: Annotated[str, Doc("its name, or a path")]
    options: Annotated[dict[str, str], Doc("options, without the leading dashes")] = field(
        default_factory=dict
    )


class CommandWorkload(Struct):
    """Any program that runs for a given time and prints its throughput."""

    run: Annotated[str, Doc("the command")]
    throughput: Annotated[
        str | None, Doc("a regular expression whose group is transactions per second")
    ] = None
    throughput_key: Annotated[
        str | None, Doc("or where that stands in the JSON it prints: `result.tps`")
    ] = None
    prepare: Annotated[str | None, Doc("a command that fills its tables")] = None
    per_scale: Annotated[int | None, Doc("bytes of its tables, for each unit of scale")] = None


class PlannedWorkload(Struct):
    """What the clients do: one of `builtin`, `scripts`, `sysbench` and `command`."""

    name: Annotated[str, Doc("its name")]
    builtin: Annotated[
        Literal["tpcb", "select", "simple-update"] | None, Doc("a script of pgbench's own")
    ] = None
    scripts: Annotated[list[WorkloadScript], Doc("scripts for pgbench")] = field(
        default_factory=list
    )
    sysbench: Annotated[SysbenchWorkload | None, Doc("a script of sysbench")] = None
    command: Annotated[CommandWorkload | None, Doc("any other program")] = None
    protocol: Annotated[Protocol, Doc("how statements are sent")] = "prepared"
    setup: Annotated[str | None, Doc("SQL that makes further tables, after pgbench's")] = None
    reads: Annotated[bool, Doc("its scripts only read, in read-only sessions")] = False
    parts: Annotated[
        list[str], Doc("names for equal shares of the statements of its script, timed apart")
    ] = field(default_factory=list)
    judged_by: Annotated[
        JudgedBy, Doc("what is judged at full speed; at a given rate it is latency")
    ] = "throughput"


class PlannedVariant(Struct):
    """One side of every comparison."""

    name: Annotated[str, Doc("its name")]
    settings: Annotated[dict[str, str], Doc("parameters of the server")] = field(
        default_factory=dict
    )
    conf: Annotated[
        str | None, Doc("the text of a file of settings; those of `settings` override it")
    ] = None
    server_bin: Annotated[
        str | None, Doc("directory of the server's programs; null: the embedded server")
    ] = None
    connect: Annotated[Connect, Doc("how clients connect")] = "socket"
    network: Annotated[Network | None, Doc("of its container; null: no container")] = None
    image: Annotated[
        str, Doc("files of its container: `host`, `minimal`, a directory or an image's name")
    ] = "host"
    storage: Annotated[
        Storage, Doc("where its data lie: a volume, an overlay, or a layer below an overlay")
    ] = "volume"
    memory: Annotated[
        int | None, Doc("bytes that the server may use, page cache included; null: no limit")
    ] = None
    iops: Annotated[int | None, Doc("reads per second, and as many writes; null: no limit")] = None
    disk: Annotated[int | None, Doc("bytes of a loop device of its own")] = None
    start: Annotated[str | None, Doc("a command that starts a server and stays")] = None
    stop: Annotated[str | None, Doc("a command that stops it; null: `start` is ended")] = None
    dsn: Annotated[str | None, Doc("how to reach the server of `start`")] = None
    timeout: Annotated[
        int, Doc("seconds in which the server of a command or a container has to answer")
    ] = 120
    bound: Annotated[
        bool, Doc("shows what could be gained at most, such as `fsync = off`; never advice")
    ] = False
    collect: Annotated[
        bool, Doc("whether machine and server are sampled every second meanwhile")
    ] = True


class BenchPlan(Struct):
    """All cells, and the rules by which runs are taken, repeated and judged."""

    workloads: Annotated[list[PlannedWorkload], Doc("what the clients do")]
    variants: Annotated[list[PlannedVariant], Doc("the others are compared with the first")]
    scales: Annotated[list[int], Doc("scale factors")]
    clients: Annotated[list[int], Doc("numbers of sessions")]
    rates: Annotated[
        list[str],
        Doc("empty: full speed; `500`: transactions per second; `70%`: of the capacity"),
    ]
    name: Annotated[str, Doc("its name")]
    blocks: Annotated[int, Doc("pairs of runs in each cell")]
    calibrate: Annotated[int, Doc("further blocks that measure the first variant twice")]
    seconds: Annotated[int, Doc("length of a run [s]")]
    warmup: Annotated[
        int | None, Doc("seconds before each run; null: a tenth of `seconds`, at least 15")
    ]
    threads: Annotated[int, Doc("of pgbench")]
    latency_limit: Annotated[
        int | None, Doc("milliseconds; at a given rate, later transactions are skipped")
    ]
    delta: Annotated[float, Doc("the smallest difference that matters, as a share")]
    steal_limit: Annotated[
        float, Doc("share of CPU time taken by the hypervisor above which a block is repeated")
    ]
    foreign_limit: Annotated[
        float, Doc("share of CPU time taken by other programs above which a block is repeated")
    ]
    seed: Annotated[int, Doc("seed of the random order")]
    skipped: Annotated[dict[str, str], Doc("variants that cannot run here, and why")] = field(
        default_factory=dict
    )
    standing: Annotated[bool, Doc("the servers keep running, on data that are there already")] = (
        False
    )


class PlanDocument(Document, tag="mrtuner.bench.plan/1"):
    """Written by `mrtuner bench init --json`."""

    plan: Annotated[BenchPlan, Doc("the plan, with the defaults filled in")]


class ForecastDocument(Document, tag="mrtuner.bench.forecast/1"):
    """Written by `mrtuner bench run --forecast --json`."""

    cells: Annotated[int, Doc("number of cells")]
    runs: Annotated[int, Doc("number of runs, those of calibration included")]
    seconds: Annotated[int, Doc("how long all of it takes, a guess")]
    size: Annotated[int, Doc("bytes of disk for each server")] = field(name="bytes")
