"""What a grid measures, with the texts of scripts and settings; fixed before its first run."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Final, Literal, get_args

from mrtuner.bench.load.pgbench import BUILTIN, Protocol
from mrtuner.bench.load.programs import Command, Sysbench
from mrtuner.described import Doc
from mrtuner.errors import BadValue
from mrtuner.postgres.connect import masked
from mrtuner.stats.steady import warm_up_seconds

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,39}")
#: The run decides where a server keeps its data and listens; a variant cannot.
PLACEMENT: Final = frozenset({
    "config_file", "data_directory", "external_pid_file", "hba_file", "ident_file",
    "listen_addresses", "port", "unix_socket_directories",
})  # fmt: skip
Phase = Literal["calibration", "comparison"]
Connect = Literal["socket", "tcp"]
#: A container's network. published: through a port of this machine; slirp: through a process, as
#: for containers of ordinary users; none: only the socket.
Network = Literal["host", "bridge", "published", "slirp", "none"]
NETWORKS: Final = get_args(Network)
#: Reached by an address of their own, or by a forwarded port.
APART: Final = frozenset({"bridge", "published", "slirp"})
Storage = Literal["volume", "overlay", "layer"]
STORAGES: Final = get_args(Storage)


def fresh_seed() -> int:
    return secrets.randbelow(2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One SQL script of a workload, in pgbench's language."""

    name: str
    text: str
    weight: int = 1

    def __post_init__(self) -> None:
        if self.weight < 1:
            raise BadValue(f"{self.name}: weight {self.weight} is below 1", "Give 1 or more.")


#: What may be judged at full speed.
JudgedBy = Literal["throughput", "longest pause"]
JUDGED_BY: Final = get_args(JudgedBy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What the clients do: a script of pgbench's own, the user's scripts or another program."""

    name: str
    builtin: str | None = None  # tpcb, select, simple-update
    scripts: tuple[Script, ...] = ()
    sysbench: Sysbench | None = None
    command: Command | None = None
    protocol: Protocol = "prepared"
    setup: str | None = None  # SQL that creates the user's own tables, after pgbench's
    reads: bool = False  # its scripts only read: their sessions are read-only
    #: Names for equal shares of the statements of its only script, in order: timed apart.
    parts: tuple[str, ...] = ()
    judged_by: JudgedBy = "throughput"  # at full speed; at a given rate, latency is judged

    def __post_init__(self) -> None:
        _check_name("workload", self.name)
        kinds = (self.builtin, self.scripts, self.sysbench, self.command)
        if sum(1 for kind in kinds if kind) != 1:
            raise BadValue(
                f"workload {self.name} needs exactly one of builtin, scripts, sysbench and command",
                f"Give builtin = one of {', '.join(BUILTIN)}, or scripts.",
            )
        if self.builtin is not None and self.builtin not in BUILTIN:
            raise BadValue(
                f"unknown workload {self.builtin!r}", f"Give one of {', '.join(BUILTIN)}."
            )
        if self.protocol not in ("simple", "extended", "prepared"):
            raise BadValue(
                f"unknown protocol {self.protocol!r}", "Give simple, extended or prepared."
            )
        if self.judged_by not in JUDGED_BY:
            raise BadValue(
                f"a workload cannot be judged by {self.judged_by!r}",
                f"Give {' or '.join(JUDGED_BY)}.",
            )
        if self.parts and len(self.scripts) != 1:
            raise BadValue(
                f"workload {self.name} needs a single script for its parts", "Join the scripts."
            )
        if self.sysbench is not None and self.protocol == "extended":
            raise BadValue(
                "sysbench does not support the extended protocol", "Give simple or prepared."
            )

    @property
    def judges_throughput(self) -> bool:
        """Whether a cell at full speed is judged by its throughput."""
        return self.judged_by == "throughput"

    @property
    def own_tables(self) -> bool:
        """Whether it makes tables beside pgbench's, and so needs a template of its own."""
        return self.setup is not None or self.prepared

    @property
    def prepared(self) -> bool:
        """Whether another program fills its tables; pgbench's then exist only at scale 1."""
        return self.sysbench is not None or (
            self.command is not None and self.command.prepare is not None
        )

    def space(self, scale: int) -> int:
        """Disk [bytes] taken by the tables that another program fills."""
        if self.sysbench is not None:
            return self.sysbench.space(scale)
        return (self.command.per_scale or 0) * scale if self.command is not None else 0

    def threads(self, wanted: int, clients: int) -> int:
        """Threads that generate the load: one per client for sysbench, and assumed for a command.

        `wanted` is the number that the plan gives to pgbench.
        """
        pgbench = self.sysbench is None and self.command is None
        return min(wanted, clients) if pgbench else clients

    @property
    def reads_only(self) -> bool:
        """Whether it surely leaves the tables unchanged; a user's scripts may write."""
        return self.builtin == "select" or self.reads

    @property
    def script(self) -> str:
        return self.builtin or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One side of every comparison; all its changes are compared as a whole."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    conf: str | None = None  # the text of a file of settings; `settings` override it
    server_bin: str | None = None  # None: the embedded server
    connect: Connect = "socket"
    network: Network | None = None  # in a container with this network; None: in none
    image: str = "host"  # its files: this machine's, "minimal", a directory or an image's name
    storage: Storage = "volume"  # or on an overlay: made there, or in a read-only layer below
    memory: int | None = None  # bytes the server may use, its page cache included
    iops: int | None = None  # reads per second, and as many writes, of a loop device of its own
    disk: int | None = None  # bytes of that device
    start: str | None = None  # a command that starts a server and stays; then dsn says where it is
    stop: str | None = None  # a command that stops it; None: `start` is interrupted
    dsn: str | None = field(default=None, repr=False)
    timeout: int = 120  # seconds in which a server of a command or a container has to answer
    bound: bool = False  # shows the most that could be gained, as by fsync = off; never advice
    collect: bool = True  # sample the machine and the server once a second meanwhile

    def __post_init__(self) -> None:
        _check_name("variant", self.name)
        if (self.start is None) is not (self.dsn is None):
            raise BadValue(
                f"variant {self.name} needs both start and dsn",
                "Give the command that starts the server, and the connection string.",
            )
        if self.start is not None and self._ours:
            raise BadValue(
                f"variant {self.name} starts its own server, so it cannot have {self._ours[0]}",
                "Set this in the command.",
            )
        if self.dsn is not None and masked(self.dsn) != self.dsn:
            raise BadValue(
                f"the dsn of variant {self.name} contains a password",
                "Use PGPASSWORD or ~/.pgpass: plans are copied into records.",
            )
        if self.connect not in ("socket", "tcp"):
            raise BadValue(f"unknown connection method {self.connect!r}", "Give socket or tcp.")
        self._check_container()
        misplaced = sorted(PLACEMENT & set(self.settings))
        if misplaced:
            raise BadValue(
                f"variant {self.name} cannot set {misplaced[0]}",
                "The run decides where the server stores data and listens; leave this out.",
            )

    def _check_container(self) -> None:
        if self.storage not in STORAGES:
            raise BadValue(
                f"unknown storage {self.storage!r}", f"Give one of {', '.join(STORAGES)}."
            )
        if self.network is None:
            if self.image != "host":
                raise BadValue(
                    f"variant {self.name} has an image but no network",
                    'Add network = "host", or leave out the image: without a network there'
                    " is no container.",
                )
            return
        if self.network not in NETWORKS:
            raise BadValue(
                f"unknown network {self.network!r}", f"Give one of {', '.join(NETWORKS)}."
            )
        wanted = {"none": "socket"} | dict.fromkeys(APART, "tcp")
        if self.connect != wanted.get(self.network, self.connect):
            raise BadValue(
                f"variant {self.name} has network {self.network} but connects by {self.connect}",
                f'Write connect = "{wanted[self.network]}": otherwise that network is not used.',
            )

    @property
    def _ours(self) -> list[str]:
        names = ("settings", "conf", "server_bin", "network", "memory", "iops", "disk")
        overlay = ["storage"] if self.storage != "volume" else []
        return [name for name in names if getattr(self, name)] + overlay


@dataclass(frozen=True, slots=True, order=True)
class GridCell:
    """A place in the grid, where all variants are compared."""

    workload: Annotated[str, Doc("name of the workload")]
    scale: Annotated[int, Doc("scale factor")]
    clients: Annotated[int, Doc("number of sessions")]
    rate: Annotated[str, Doc("as in `rates` of the plan; empty: full speed")] = ""

    @property
    def key(self) -> str:
        """``tpcb s100 c8``, ``select s10 c4 @70%``: for people and for records."""
        rate = f" @{self.rate}" if self.rate else ""
        return f"{self.workload} s{self.scale} c{self.clients}{rate}"

    @property
    def relative(self) -> bool:
        """Whether its rate is a share of what the same cell can do."""
        return self.rate.endswith("%")

    @property
    def closed(self) -> GridCell:
        """The same cell at full speed."""
        return GridCell(self.workload, self.scale, self.clients)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All cells, and every rule by which runs are taken, repeated and judged."""

    workloads: tuple[Workload, ...]
    variants: tuple[Variant, ...]  # the first is the baseline
    scales: tuple[int, ...] = (100,)
    clients: tuple[int, ...] = (8,)
    rates: tuple[str, ...] = ("",)
    name: str = "grid"
    blocks: int = 10
    calibrate: int = 0  # further blocks per cell that measure the first variant twice
    seconds: int = 60
    warmup: int | None = None  # seconds; None: max(15, a tenth of `seconds`)
    threads: int = 1  # of pgbench
    latency_limit: int | None = None  # ms; at a given rate, later transactions are skipped
    delta: float = 0.03  # the smallest difference that matters
    steal_limit: float = 0.01  # share of the machine's CPU time; above it a block is repeated
    foreign_limit: float = 0.03
    seed: int = field(default_factory=fresh_seed)
    skipped: Mapping[str, str] = field(default_factory=dict)  # variants that cannot run, and why
    #: The servers keep running, warm, on existing data: nothing is copied or dropped, and an error
    #: ends everything.
    standing: bool = False

    def __post_init__(self) -> None:
        for name in ("workloads", "variants", "scales", "clients", "rates"):
            _check_list(name, getattr(self, name))
        lowest = (
            ("scale", min(self.scales), 1), ("clients", min(self.clients), 1),
            ("blocks", self.blocks, 1), ("seconds", self.seconds, 1),
            ("calibrate", self.calibrate, 0), ("warmup", self.warmup_seconds, 0),
        )  # fmt: skip
        for name, value, least in lowest:
            if value < least:
                raise BadValue(
                    f"{name} {value} is below {least}", f"Give whole numbers of at least {least}."
                )
        for rate in self.rates:
            _check_rate(rate)
        if any(rate.endswith("%") for rate in self.rates) and "" not in self.rates:
            raise BadValue(
                "a rate in percent needs a known capacity",
                'Add the rate "" (full speed) to rates.',
            )
        untimed = next((one.name for one in self.workloads if one.command is not None), None)
        if untimed is not None and any(self.rates):
            raise BadValue(
                f"workload {untimed} cannot be run at given rates",
                "Such cells are judged by latency, which a command does not report: use a "
                "separate plan for it.",
            )
        if len(self.variants) < 2:
            raise BadValue("a grid needs at least two variants", "Add a second [[variant]].")
        if not 0 < self.delta < 1:
            raise BadValue(f"delta {self.delta} is not between 0 and 1", "Write 3 % as 0.03.")

    @property
    def warmup_seconds(self) -> int:
        """Least length of the warm-up before every run [s]; it does not count."""
        return warm_up_seconds(self.seconds) if self.warmup is None else self.warmup

    @cached_property
    def by_name(self) -> Mapping[str, Workload]:
        return {workload.name: workload for workload in self.workloads}

    @property
    def layered(self) -> bool:
        """Whether a variant's data lie in a read-only layer; then the first statement is timed."""
        return any(variant.storage == "layer" for variant in self.variants)

    @property
    def baseline(self) -> Variant:
        return self.variants[0]

    def disturbances(self, steal: float | None, foreign: float | None) -> list[str]:
        """What exceeded its limit, in words; an unknown share exceeds nothing."""
        shares = (
            ("steal", steal, self.steal_limit),
            ("CPU used by others", foreign, self.foreign_limit),
        )
        return [
            f"{name} {share * 100:.1f} %, limit {limit * 100:g} %"
            for name, share, limit in shares
            if share is not None and share > limit
        ]

    def variant(self, name: str) -> Variant:
        """The variant of this name; BadValue when there is none."""
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise BadValue(f"unknown variant {name!r}", f"Use one of {', '.join(self.names)}.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variants, in the plan's order."""
        return tuple(variant.name for variant in self.variants)

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON types."""
        from mrtuner.bench.plan.document import BenchPlan
        from mrtuner.documents import as_builtins, convert

        return as_builtins(convert(self, BenchPlan))


def from_dict(document: Mapping[str, Any]) -> Plan:
    """Restore a plan from `to_dict`, also after JSON; ValueError for anything else."""
    from mrtuner.documents import convert

    return convert(document, Plan)


def _check_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise BadValue(
            f"{name!r} is not a valid name for a {what}",
            "Use up to 40 letters, digits, dots, dashes and underscores.",
        )


def _check_list(name: str, values: tuple[Any, ...]) -> None:
    if not values:
        raise BadValue(f"{name} is empty", "Give at least one.")
    known = [getattr(value, "name", value) for value in values]
    twice = sorted({str(value) for value in known if known.count(value) > 1})
    if twice:
        raise BadValue(f"{name} contains {twice[0]} twice", "Give each once.")


def _check_rate(rate: str) -> None:
    number = rate.removesuffix("%")
    if rate and not (re.fullmatch(r"\d+(\.\d+)?", number) and float(number) > 0):
        raise BadValue(
            f"{rate!r} is not a rate", 'Write "500" for 500 per second, or "70%" of capacity.'
        )
    if rate.endswith("%") and float(number) >= 100:
        raise BadValue(f"{rate} of capacity is not possible", "Give less than 100%.")
