"""What a grid measures, with the texts of scripts and settings; fixed before its first run."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal, get_args

from mrtuner.bench.load.pgbench import Builtin, Protocol
from mrtuner.bench.load.programs import CommandWorkload, Sysbench
from mrtuner.described import Doc, Omissible, document_name
from mrtuner.errors import BadValue
from mrtuner.postgres.connect import masked
from mrtuner.postgres.secret_settings import is_secret, shown
from mrtuner.stats.steady import warm_up_seconds

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,39}")
#: The run decides where a server keeps its data and listens; a variant cannot.
PLACEMENT: Final = frozenset({
    "config_file", "data_directory", "external_pid_file", "hba_file", "ident_file",
    "listen_addresses", "port", "unix_socket_directories",
})  # fmt: skip
#: In the file of a server in use these lead to its archive, its standbys, its log: a temporary
#: server must not go there. Of `conf` alone; what `settings` say is meant.
_OUTSIDE: Final = frozenset({
    "archive_library", "archive_mode", "log_destination", "log_directory", "logging_collector",
    "primary_slot_name", "stats_temp_directory", "synchronous_standby_names", "syslog_ident",
})  # fmt: skip
_CONF_NAME: Final = re.compile(r"\s*([\w.]+)")
Phase = Literal["calibration", "comparison"]
Connect = Literal["socket", "tcp"]
#: A container's network. published: through a port of this machine; slirp: through a process, as
#: for containers of ordinary users; none: only the socket.
Network = Literal["host", "bridge", "published", "slirp", "none"]
#: Reached by an address of their own, or by a forwarded port.
APART: Final = frozenset({"bridge", "published", "slirp"})
Storage = Literal["volume", "overlay", "layer"]


def fresh_seed() -> int:
    return secrets.randbelow(2**31)


@document_name("WorkloadScript")
@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """An SQL script in pgbench's language."""

    name: Annotated[str, Doc("its name")]
    text: Annotated[str, Doc("the script")]
    weight: Annotated[int, Omissible("how often it is chosen, beside the others")] = 1

    def __post_init__(self) -> None:
        if self.weight < 1:
            raise BadValue(f"{self.name}: weight {self.weight} is below 1", "Give 1 or more.")

    @property
    def recorded(self) -> Script:
        """What of it belongs in a record."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnScript(Script):
    """A statement with values drawn from a database's rows: those belong in no record."""

    statement: str  # without them

    @property
    def recorded(self) -> Script:
        return Script(name=self.name, text=self.statement, weight=self.weight)


#: What may be judged at full speed.
JudgedBy = Literal["throughput", "longest pause"]


@document_name("PlannedWorkload")
@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What the clients do: one of `builtin`, `scripts`, `sysbench` and `command`."""

    name: Annotated[str, Doc("its name")]
    builtin: Annotated[Builtin | None, Omissible("a script of pgbench's own")] = None
    scripts: Annotated[tuple[Script, ...], Omissible("scripts for pgbench")] = ()
    sysbench: Annotated[Sysbench | None, Omissible("a script of sysbench")] = None
    command: Annotated[CommandWorkload | None, Omissible("any other program")] = None
    protocol: Annotated[Protocol, Omissible("how statements are sent")] = "prepared"
    setup: Annotated[str | None, Omissible("SQL that makes further tables, after pgbench's")] = None
    reads: Annotated[bool, Omissible("its scripts only read, in read-only sessions")] = False
    parts: Annotated[
        tuple[str, ...],
        Omissible("names for equal shares of the statements of its script, timed apart"),
    ] = ()
    judged_by: Annotated[
        JudgedBy, Omissible("what is judged at full speed; at a given rate it is latency")
    ] = "throughput"

    def __post_init__(self) -> None:
        _check_name("workload", self.name)
        kinds = (self.builtin, self.scripts, self.sysbench, self.command)
        if sum(1 for kind in kinds if kind) != 1:
            raise BadValue(
                f"workload {self.name} needs exactly one of builtin, scripts, sysbench and command",
                f"Give builtin = one of {', '.join(get_args(Builtin))}, or scripts.",
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


@document_name("PlannedVariant")
@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One side of every comparison."""

    name: Annotated[str, Doc("its name")]
    settings: Annotated[Mapping[str, str], Omissible("parameters of the server")] = field(
        default_factory=dict
    )
    conf: Annotated[
        str | None, Omissible("the text of a file of settings; those of `settings` override it")
    ] = None
    server_bin: Annotated[
        str | None, Omissible("directory of the server's programs; null: the embedded server")
    ] = None
    connect: Annotated[Connect, Omissible("how clients connect")] = "socket"
    network: Annotated[Network | None, Omissible("of its container; null: no container")] = None
    image: Annotated[
        str, Omissible("files of its container: `host`, `minimal`, a directory or an image's name")
    ] = "host"
    storage: Annotated[
        Storage, Omissible("where its data lie: a volume, an overlay, or a layer below an overlay")
    ] = "volume"
    memory: Annotated[
        int | None, Omissible("bytes that the server may use, page cache included; null: no limit")
    ] = None
    iops: Annotated[
        int | None, Omissible("reads per second, and as many writes; null: no limit")
    ] = None
    disk: Annotated[int | None, Omissible("bytes of a loop device of its own")] = None
    start: Annotated[str | None, Omissible("a command that starts a server and stays")] = None
    stop: Annotated[str | None, Omissible("a command that stops it; null: `start` is ended")] = None
    dsn: Annotated[str | None, Omissible("how to reach the server of `start`")] = field(
        default=None, repr=False
    )
    timeout: Annotated[
        int, Omissible("seconds in which the server of a command or a container has to answer")
    ] = 120
    bound: Annotated[
        bool, Omissible("shows what could be gained at most, such as `fsync = off`; never advice")
    ] = False
    collect: Annotated[
        bool, Omissible("whether machine and server are sampled every second meanwhile")
    ] = True

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
        self._check_container()
        misplaced = sorted(name for name in self.settings if name.lower() in PLACEMENT)
        if misplaced:
            raise BadValue(
                f"variant {self.name} cannot set {misplaced[0]}",
                "The run decides where the server stores data and listens; leave this out.",
            )
        said = self.settings.items()
        secret = sorted(name for name, value in said if shown(name, value) != value)
        if secret:
            raise BadValue(
                f"{secret[0]} of variant {self.name} may hold a secret",
                "Leave it out: plans are copied into records, and continued from there.",
            )

    def _check_container(self) -> None:
        if self.network is None:
            if self.image != "host":
                raise BadValue(
                    f"variant {self.name} has an image but no network",
                    'Add network = "host", or leave out the image: without a network there'
                    " is no container.",
                )
            return
        wanted = {"none": "socket"} | dict.fromkeys(APART, "tcp")
        if self.connect != wanted.get(self.network, self.connect):
            raise BadValue(
                f"variant {self.name} has network {self.network} but connects by {self.connect}",
                f'Write connect = "{wanted[self.network]}": otherwise that network is not used.',
            )

    @property
    def conf_lines(self) -> Iterator[tuple[str, str]]:
        """Each line of `conf` that the server is given, after its name in lower case.

        Left out are comments, and names that lead elsewhere or may hold a secret: a resumed run has
        only the record, which keeps no secret.
        """
        for line in (self.conf or "").splitlines():
            found = _CONF_NAME.match(line)
            name = found[1].lower() if found is not None else ""
            ignored = name in PLACEMENT | _OUTSIDE or is_secret(name)
            if line.strip() and not line.lstrip().startswith("#") and not ignored:
                yield name, line

    @property
    def recorded(self) -> Variant:
        """What of it belongs in a record."""
        if self.conf is None:
            return self
        return replace(self, conf="".join(f"{line}\n" for _, line in self.conf_lines))

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
        return GridCell(self.workload, self.scale, self.clients)


@document_name("BenchPlan")
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All cells, and the rules by which runs are taken, repeated and judged."""

    workloads: Annotated[tuple[Workload, ...], Doc("what the clients do")]
    variants: Annotated[tuple[Variant, ...], Doc("the others are compared with the first")]
    scales: Annotated[tuple[int, ...], Doc("scale factors")] = (100,)
    clients: Annotated[tuple[int, ...], Doc("numbers of sessions")] = (8,)
    rates: Annotated[
        tuple[str, ...],
        Doc("empty: full speed; `500`: transactions per second; `70%`: of the capacity"),
    ] = ("",)
    name: Annotated[str, Doc("its name")] = "grid"
    blocks: Annotated[int, Doc("pairs of runs in each cell")] = 10
    calibrate: Annotated[int, Doc("further blocks that measure the first variant twice")] = 0
    seconds: Annotated[int, Doc("length of a run [s]")] = 60
    warmup: Annotated[
        int | None, Doc("seconds before each run; null: a tenth of `seconds`, at least 15")
    ] = None
    threads: Annotated[int, Doc("of pgbench")] = 1
    latency_limit: Annotated[
        int | None, Doc("milliseconds; at a given rate, later transactions are skipped")
    ] = None
    delta: Annotated[float, Doc("the smallest difference that matters, as a share")] = 0.03
    steal_limit: Annotated[
        float, Doc("share of CPU time taken by the hypervisor above which a block is repeated")
    ] = 0.01
    foreign_limit: Annotated[
        float, Doc("share of CPU time taken by other programs above which a block is repeated")
    ] = 0.03
    seed: Annotated[int, Doc("seed of the random order")] = field(default_factory=fresh_seed)
    skipped: Annotated[Mapping[str, str], Omissible("variants that cannot run here, and why")] = (
        field(default_factory=dict)
    )
    #: Then nothing is copied or dropped, and an error ends everything.
    standing: Annotated[
        bool, Omissible("the servers keep running, on data that are there already")
    ] = False

    def __post_init__(self) -> None:
        for name in ("workloads", "variants", "scales", "clients", "rates"):
            _check_list(name, getattr(self, name))
        lowest = (
            ("scale", min(self.scales), 1), ("clients", min(self.clients), 1),
            ("blocks", self.blocks, 1), ("seconds", self.seconds, 1),
            ("threads", self.threads, 1), ("calibrate", self.calibrate, 0),
            ("warmup", self.warmup_seconds, 0),
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

    @property
    def recorded(self) -> Plan:
        """What of it belongs in a record."""
        workloads = tuple(
            replace(one, scripts=tuple(script.recorded for script in one.scripts))
            for one in self.workloads
        )
        variants = tuple(variant.recorded for variant in self.variants)
        return replace(self, workloads=workloads, variants=variants)

    @property
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
        return tuple(variant.name for variant in self.variants)


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
