"""Merge flags, a machine and a server into one `Situation`; flags win, conflicts are reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, TypeVar, Unpack

from mrtuner.errors import BadValue, UsageError
from mrtuner.facts import Fact, Missing
from mrtuner.inputs import MachineInputs, Storage, Workload, checked
from mrtuner.tuning.advice import Input, Level, Notice
from mrtuner.tuning.budget import shared_bound
from mrtuner.tuning.observed import observed, too_short
from mrtuner.tuning.situation import (
    HUGE_PAGE,
    Clock,
    Connections,
    Cpus,
    Data,
    Disk,
    HugePages,
    Memory,
    Rto,
    Seen,
    Situation,
    Throughput,
    WalDisk,
    usual_ceiling,
)
from mrtuner.tuning.verdict import RULES
from mrtuner.units import (
    Bytes,
    KiB,
    MiB,
    pretty_bytes,
    pretty_duration,
)

if TYPE_CHECKING:
    from mrtuner.host.model import Host
    from mrtuner.host.model import HugePages as Reserved
    from mrtuner.postgres.model import Server

T = TypeVar("T")

#: The version to tune for if none is given.
NEWEST = 18
#: initdb's own databases take some 25 MB.
SOME_DATA = 256 * MiB
#: Inputs in bytes; the others count something.
_SIZES = frozenset(["memory", "disk", "wal-disk", "throughput", "data"])
#: A window [s] long enough for its average to reflect a server's usual load.
LONG = 6 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """`MachineInputs` as checked; None means not given."""

    memory: Bytes | None = None
    cpus: int | None = None
    storage: Storage | None = None
    disk: Bytes | None = None
    wal_disk: Bytes | None = None
    iops: int | None = None
    throughput: Bytes | None = None  # per second
    rto: float | None = None  # seconds
    data: Bytes | None = None
    workload: Workload | None = None
    connections: int | None = None
    active: int | None = None
    huge_pages: bool | None = None
    postgres: int | None = None
    ceiling: float | None = None
    lower: frozenset[str] = frozenset()
    seen: Seen = Seen.RESET  # how the server's counters were observed

    @property
    def describe_a_machine(self) -> bool:
        """Whether memory or CPUs are given, which describes a machine other than this one."""
        return self.memory is not None or self.cpus is not None


def flags(**given: Unpack[MachineInputs]) -> Flags:
    """Check a caller's values; BadValue names the invalid one."""
    said = Flags(**checked(given))
    if said.connections and said.active and said.active > said.connections:
        raise BadValue(
            f"active {said.active} is more than the {said.connections} connections",
            f"Give at most {said.connections}: a session runs one statement at a time.",
        )
    for name in said.lower - RULES.keys():
        raise BadValue(
            f"there is no rule for {name!r}, so nothing would lower it",
            "mrtuner explain lists the parameters that have a rule.",
        )
    return said


@dataclass(slots=True)
class Gathered:
    """A situation, and what to report about where it came from."""

    situation: Situation
    given: list[Input] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)


@dataclass(slots=True)
class _Collector:
    """Merges flags with facts and records both."""

    given: list[Input] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    said: set[str] = field(default_factory=set)  # facts that a flag supplied

    def pick(self, name: str, said: T | None, found: Fact[T] | None) -> T | None:
        shown = None if found is None else _text(name, found.value)
        if said is not None:
            given = _text(name, said)
            self.given.append(Input(name, given, f"--{name}"))
            self.said.add(name)
            if found is not None and found.value != said:
                text = f"--{name} is {given}, but {found.source} shows {shown}"
                self.notices.append(Notice(Level.WARNING, text))
            return said
        if found is not None and shown is not None:
            self.given.append(Input(name, shown, found.source))
            return found.value
        return None

    def huge_pages(self, found: HugePages | None) -> None:
        if found is not None:
            size = "all of shared memory" if found.covers is None else pretty_bytes(found.covers)
            self.given.append(Input("huge pages", size, found.source))

    def assume(self, name: str, value: T) -> T:
        """Return the default for a value that was not given, and record it."""
        self.given.append(Input(name, _text(name, value), f"assumed; change it with --{name}"))
        return value


def _text(name: str, value: object) -> str:
    return pretty_bytes(value) if name in _SIZES and isinstance(value, int) else str(value)


def described(said: Flags) -> Gathered:
    """Describe a machine known from flags alone."""
    return _gather(said, None, None)


def this_machine(said: Flags, host: Host) -> Gathered:
    """Describe the machine we run on, with flags taking precedence."""
    return _gather(said, host, None)


def live(said: Flags, server: Server, host: Host | None) -> Gathered:
    """Describe a running server; `host` is its machine if it is known to be this one."""
    if said.postgres is not None and said.postgres != server.major:
        raise UsageError(
            f"the server is PostgreSQL {server.version}, not {said.postgres}",
            "Omit --pg: the server reports its version.",
        )
    if host and host.memory and said.memory and said.memory > host.memory.value:
        raise UsageError(
            f"--memory {pretty_bytes(said.memory)} is more than the "
            f"{pretty_bytes(host.memory.value)} this host has ({host.memory.source})",
            "Give the memory that PostgreSQL can really use, or omit --memory.",
        )
    return _gather(said, host, server)


def _gather(said: Flags, host: Host | None, server: Server | None) -> Gathered:
    collect = _Collector()
    huge_pages = _huge_pages(said, host, server)
    memory = collect.pick("memory", said.memory, _memory(host, huge_pages, server))
    cpus = collect.pick("cpus", said.cpus, host.cpus if host else None)
    storage = collect.pick("storage", said.storage, host.storage if host else None)
    size = collect.pick("disk", said.disk, host.disk_size if host else None)
    free = host.disk_free.value if host and host.disk_free else None
    wal_size = collect.pick("wal-disk", said.wal_disk, host.wal_size if host else None)
    iops = collect.pick("iops", said.iops, host.volume_iops if host else None)
    bandwidth = collect.pick("throughput", said.throughput, host.volume_bandwidth if host else None)
    if said.rto is not None:
        collect.given.append(Input("rto", pretty_duration(said.rto), "--rto"))
    data = collect.pick("data", said.data, _data(server))
    major = collect.pick("pg", said.postgres, _major(server)) or collect.assume("pg", NEWEST)
    workload = collect.pick("workload", said.workload, None)
    workload = workload or collect.assume("workload", Workload.MIXED)
    collect.pick("active", said.active, None)
    collect.huge_pages(huge_pages)
    connections = _connections(said, server)
    situation = Situation(
        major=major,
        workload=workload,
        connections=connections,
        memory=Memory(memory) if memory else None,
        cpus=Cpus(cpus) if cpus else None,
        storage=storage,
        filesystem=host.filesystem.value if host and host.filesystem else None,
        disk=None if size is None and free is None else Disk(size, free),
        wal_disk=_wal_disk(wal_size, host, server),
        throughput=None if iops is None and bandwidth is None else Throughput(iops, bandwidth),
        rto=None if said.rto is None else Rto(said.rto),
        data=Data(data) if data else None,
        clock=Clock(host.clock.value) if host and host.clock else None,
        io_uring=host.io_uring.value if host and host.io_uring else None,
        huge_pages=huge_pages,
        huge_page=_page_size(host, server),
        whole_memory=host.memory.value if host and host.memory and not said.memory else None,
        ceiling=said.ceiling or usual_ceiling(workload),
        lower=said.lower,
        **observed(server, said.seen),
    )
    gathered = Gathered(situation, collect.given, collect.notices)
    gathered.notices += [
        *_too_few(situation), *_believed(said, huge_pages, server), *_lower_ceiling(situation),
    ]  # fmt: skip
    if situation.window and (text := too_short(situation.window)):
        gathered.notices.append(Notice(Level.INFO, text))
    gathered.missing = [
        *(item for item in (host.missing if host else ()) if item.name not in collect.said),
        *(server.missing if server else ()),
        *(_out_of_sight(situation) if server and host is None else ()),
    ]
    return gathered


def _wal_disk(size: Bytes | None, host: Host | None, server: Server | None) -> WalDisk | None:
    """Return pg_wal's own volume; without figures if there may be one that we cannot see."""
    if size is not None:
        return WalDisk(size, host.wal_free.value if host and host.wal_free else None)
    unseen = host is not None and any(item.name == "wal-disk" for item in host.missing)
    return WalDisk(None, None) if unseen and server else None


def _connections(said: Flags, server: Server | None) -> Connections:
    if server is None:
        return Connections(said.connections, active=said.active)
    seen = _seen_active(server, said.seen)
    open_now = max(server.connections, server.activity.peak_sessions or 0)
    return Connections(said.connections, open_now, said.active, seen)


def _seen_active(server: Server, seen: Seen) -> int | None:
    """Return how many sessions are active at once; None if no watch or long window shows it.

    That is the most seen active, or the average that follows from the time of statements. An
    average hides peaks, which are assumed to be three times as high unless we watched under load.
    """
    spent, window = server.activity.active_ms, server.activity.window
    peak = max(server.active, server.activity.peak_active or 0)
    averaged = seen is Seen.RESET
    if spent is None or window <= 0 or (averaged and window < LONG):
        return None
    average = spent / 1000 / window * (3 if averaged else 1)
    return max(1, peak, ceil(average))


def _too_few(situation: Situation) -> Iterator[Notice]:
    """Yield notices if more sessions, or more active ones, were seen than stated."""
    connections = situation.connections
    wanted, seen = connections.wanted, connections.seen
    if wanted is not None and seen is not None and seen > wanted:
        text = (
            f"{seen} sessions were open at once: --connections {wanted} would refuse some of them"
        )
        yield Notice(Level.WARNING, text)
    active, busy = connections.active, connections.seen_active
    if active is not None and busy is not None and busy > active:
        how = "were seen active at the same moment"
        if situation.peaks_assumed:
            how = f"are active at peaks, judged by the average {situation.observed}"
        text = f"--active is {active}, but {busy} sessions {how}"
        yield Notice(Level.WARNING, text)


def _lower_ceiling(situation: Situation) -> Iterator[Notice]:
    """Yield a notice of the machine that a ceiling below the usual one makes of this one."""
    sized = situation.within_ceiling()
    if sized.memory is not None and sized != situation:
        yield Notice(
            Level.INFO,
            f"--ceiling leaves what a machine of {pretty_bytes(sized.memory.size)} usually has: "
            "reasons and formulas speak of the memory of that one",
        )


def _memory(
    host: Host | None, found: HugePages | None, server: Server | None
) -> Fact[Bytes] | None:
    """The memory without huge pages that are not the server's: it can use them for nothing else."""
    memory = host.memory if host else None
    if host is None or memory is None or (found and found.covers is None):
        return memory
    lost = host.in_huge_pages - ((found.covers or 0) if found else 0)
    asked = _page_size(host, server)
    if host.huge_pages and asked != host.huge_pages.value.size:
        lost -= (host.reserved(asked) or 0) * asked  # it may be in these
    ram = host.vm.value.ram if host.vm else None
    left = (ram or memory.value) - lost
    if lost <= 0 or left >= memory.value:
        return memory
    without = f"without {pretty_bytes(lost)} of huge pages that the server does not use"
    return Fact(Bytes(left), f"{memory.source}, {without}")


def _huge_pages(said: Flags, host: Host | None, server: Server | None) -> HugePages | None:
    """Return what huge pages are proved to hold; None without proof: page tables then count."""
    found = _proved(said, host, server)
    if found is None or found.covers is None or host is None or host.limited or said.memory:
        return found
    return replace(found, reserved=min(found.covers, host.in_huge_pages))


def _proved(said: Flags, host: Host | None, server: Server | None) -> HugePages | None:
    if said.huge_pages is False or (server and server.text("huge_pages") == "off"):
        return None
    pages = host.huge_pages.value if host and host.huge_pages else None
    if pages and _page_size(host, server) != pages.size:
        pages = None  # others than the server asks for
    if said.huge_pages and (server is None or pages is None):
        return HugePages(None, "--huge-pages")  # nothing here shows whether they are reserved
    unclaimed = pages.unclaimed * pages.size if pages else 0
    if server is None:
        if not pages or not host or not host.huge_pages or not unclaimed:
            return None
        return HugePages(Bytes(unclaimed), host.huge_pages.source)
    proof = _in_force(server, pages)
    own = _shared_memory(server) if proof else 0
    if said.huge_pages and own + unclaimed:
        return HugePages(Bytes(own + unclaimed), proof or "/proc/meminfo: free huge pages")
    return HugePages(Bytes(own + unclaimed), proof) if proof and own else None


def _page_size(host: Host | None, server: Server | None) -> Bytes:
    """The size of the huge pages that the server asks for: its own, or the machine's."""
    own = server.text("huge_page_size") if server else None
    if own and int(own):
        return Bytes(int(own) * KiB)
    return host.huge_pages.value.size if host and host.huge_pages else HUGE_PAGE


def _believed(said: Flags, found: HugePages | None, server: Server | None) -> Iterator[Notice]:
    """Say what --huge-pages rests on, for a server that runs: what is free, or only the word."""
    if not said.huge_pages or server is None:
        return
    status = server.text("huge_pages_status")
    got = "" if status is None else f" (huge_pages_status is {status})"
    if server.text("huge_pages") == "off":
        text = "--huge-pages: huge_pages is off on this server, so page tables count"
    elif found is None:
        text = f"--huge-pages: none are free on this machine{got}, so page tables count"
    elif found.covers is None:
        text = (
            f"--huge-pages is taken on trust, since the machine cannot be read{got}: with too few, "
            "huge_pages = try starts without them, and page tables take memory"
        )
    else:
        text = f"--huge-pages: they hold {pretty_bytes(found.covers)} of shared memory now{got}"
    yield Notice(Level.WARNING if found is None or found.covers is None else Level.INFO, text)


def _in_force(server: Server, pages: Reserved | None) -> str | None:
    """Return the proof that the server's shared memory is in huge pages now; None without one."""
    status, wanted = server.text("huge_pages_status"), server.text("huge_pages")
    if status in {"on", "off"}:
        return "huge_pages_status" if status == "on" else None
    if wanted == "on":
        return "huge_pages = on: the server would not have started without them"
    buffers = _size_of(server, "shared_buffers")
    if wanted == "try" and pages and buffers:
        enough = pages.used * pages.size >= buffers
        return "/proc/meminfo: as many in use as shared buffers need" if enough else None
    return None


def _shared_memory(server: Server) -> int:
    """An upper bound on the server's present shared memory; 0 if hidden."""
    buffers, wal = _size_of(server, "shared_buffers"), _size_of(server, "wal_buffers")
    sessions = server.text("max_connections")
    workers = server.text("max_worker_processes")
    if not (buffers and sessions and workers):
        return 0
    return shared_bound(buffers, wal, int(sessions) + int(workers)).evaluate({})


def _size_of(server: Server, name: str) -> int:
    """A setting counted in blocks of 8 kB, in bytes; 0 if hidden."""
    text = server.text(name)
    return int(text) * 8 * KiB if text and int(text) > 0 else 0


def _out_of_sight(situation: Situation) -> list[Missing]:
    """Facts that SQL cannot show about the machine of a remote server."""
    machine = {
        "memory": situation.memory,
        "cpus": situation.cpus,
        "storage": situation.storage,
        "disk": situation.disk,
    }
    why = "the server's machine is not visible from here"
    return [Missing(name, why, f"--{name}") for name, fact in machine.items() if fact is None]


def _data(server: Server | None) -> Fact[Bytes] | None:
    """Return the size of the data; None if the server is almost empty, and may still be filled."""
    size = sum(server.databases.values()) if server else 0
    return Fact(Bytes(size), "pg_database_size of every database") if size >= SOME_DATA else None


def _major(server: Server | None) -> Fact[int] | None:
    return Fact(server.major, "server_version_num") if server else None
