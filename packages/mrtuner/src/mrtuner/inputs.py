"""What a caller may say about a machine: each input declared once.

`MachineInputs` is the one declaration. It types the arguments of `mrtuner.tune`, makes the options
of the command line, checks what was given, and is written into the docs with its JSON Schema.
To add an input, add a field here and say in `tuning.gather` what fact it becomes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import ceil, inf
from typing import Annotated, Any, Final, TypedDict, get_type_hints

from mrtuner.errors import BadValue
from mrtuner.units import (
    Bytes,
    MiB,
    parse_bytes,
    parse_duration,
    parse_rate,
    parse_share,
    pretty_bytes,
    pretty_duration,
)

#: The major versions that MrTuner knows.
MAJORS: Final = (13, 14, 15, 16, 17, 18, 19)
#: How many statements have their plans compared, unless a number is given.
PLANS: Final = 20
#: x86-64 and arm64 address at most 52 bits, and a file's offset has 63: no machine has more.
MOST_MEMORY: Final = 2**52
MOST_DISK: Final = 2**63 - 1
#: Half of it is for the least max_wal_size that is advised, of 128 MB.
LEAST_DISK: Final = 256 * MiB
#: No volume does this many operations a second yet.
MOST_IOPS: Final = 100_000_000
#: The server allows 262,143 processes of all kinds (MAX_BACKENDS), reserves and workers included.
MOST_SESSIONS: Final = 260_000
MOST_CPUS: Final = 4096
#: CPUs as Kubernetes writes a quota: thousandths, or a part of one.
_QUOTA: Final = re.compile(r"([0-9]+)m|([0-9]*\.[0-9]+)")


class Workload(StrEnum):
    """What the server is used for. A measured value takes precedence over it."""

    WEB = "web"
    OLTP = "oltp"
    OLAP = "olap"
    MIXED = "mixed"
    DESKTOP = "desktop"

    @property
    def short_transactions(self) -> bool:
        """Many small transactions: latency matters; parallel query and JIT do not pay off."""
        return self in {Workload.WEB, Workload.OLTP}


class Storage(StrEnum):
    """Kinds of storage that need different settings."""

    HDD = "hdd"
    SSD = "ssd"
    NVME = "nvme"
    EBS = "ebs"  # Amazon's network block storage, whatever driver presents it
    NETWORK = "network"  # NFS, Ceph, iSCSI and other volumes behind a network
    OVERLAY = "overlay"  # a container's image layer: no place for data


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One input: what it means, how it is written, what is accepted."""

    help: str  # a sentence without its full stop
    metavar: str
    flag: str = ""  # the option's name, if it differs from the argument's
    default: str = ""  # in words: what applies if it is not given

    def parse(self, _name: str, text: str, /) -> Any:
        """Return the value of a text from an option or a form; `check` is called next."""
        return text

    def check(self, name: str, value: Any, /) -> Any:
        """Return the value as the rules use it; raise BadValue if it is not valid."""
        raise NotImplementedError

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of what is accepted, without the description."""
        raise NotImplementedError


@contextmanager
def _said_of(name: str) -> Iterator[None]:
    """Name the input in the error for a text that cannot be read."""
    try:
        yield
    except BadValue as error:
        raise BadValue(f"{name}: {error.message}", error.hint) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Size(Input):
    """Bytes, or a text such as 16GB."""

    most: int
    least: int = MiB
    metavar: str = "SIZE"
    rate: bool = False  # per second: ``125MB/s`` means the same as ``125MB``

    def check(self, name: str, value: Any, /) -> Bytes:
        """Return the size in bytes."""
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            raise BadValue(f"{name} {value!r} is not a size", "Give bytes or a text such as 16GB.")
        if self.rate and isinstance(value, str):
            value = value.strip().removesuffix("/s")
        with _said_of(name):
            size = parse_bytes(value)
        if size < MiB:
            raise BadValue(
                f"{name} of {size} bytes is too small",
                "Give a size with its unit, such as 16GB.",
            )
        if size < self.least:
            raise BadValue(
                f"{name} {value!r} is too small", f"Give at least {pretty_bytes(self.least)}."
            )
        if size > self.most:
            raise BadValue(
                f"{name} {value!r} is too large",
                f"Give at most {pretty_bytes(self.most)}.",
            )
        return size

    def schema(self) -> dict[str, Any]:
        return {
            "anyOf": [
                {"type": "integer", "minimum": self.least, "maximum": self.most},
                {"type": "string"},
            ]
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Input):
    """A whole number of at least 1."""

    most: int
    metavar: str = "N"

    def parse(self, name: str, text: str, /) -> int:
        try:
            return int(text)
        except ValueError:
            return self.check(name, text)  # which refuses it

    def check(self, name: str, value: Any, /) -> int:
        """Return the number."""
        if not isinstance(value, int) or isinstance(value, bool):
            raise BadValue(
                f"{name} {value!r} is not a whole number", f"Give one from 1 to {self.most}."
            )
        if not 1 <= value <= self.most:
            raise BadValue(
                f"{name} {value} is out of range", f"Give a number from 1 to {self.most}."
            )
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": 1, "maximum": self.most}


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuCount(Count):
    """A whole number of CPUs; the error for a quota such as 500m or 0.5 says what to give."""

    most: int = MOST_CPUS

    def check(self, name: str, value: Any, /) -> int:
        quota = _QUOTA.fullmatch(str(value))
        if quota is None:
            return Count.check(self, name, value)
        whole = max(1, ceil(Fraction(quota[1] or quota[2]) / (1000 if quota[1] else 1)))
        raise BadValue(
            f"{name} {value!r} is not a whole number",
            f"Give {min(whole, self.most)}: a quota counts as whole CPUs, rounded up.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Input):
    """One of a few words, in any case."""

    words: type[StrEnum]
    metavar: str = "KIND"

    def check(self, name: str, value: Any, /) -> StrEnum:
        try:
            return self.words(str(value).lower())
        except ValueError:
            known = ", ".join(self.words)
            raise BadValue(f"{name} cannot be {value!r}", f"Use one of {known}.") from None

    def schema(self) -> dict[str, Any]:
        return {"enum": [str(word) for word in self.words]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Version(Count):
    """A major version of PostgreSQL."""

    metavar: str = "MAJOR"
    most: int = MAJORS[-1]

    def check(self, _name: str, value: Any, /) -> int:
        """Return the version."""
        if isinstance(value, int) and value in MAJORS:
            return value
        raise BadValue(
            f"PostgreSQL {value!r} is not supported",
            f"MrTuner knows the majors {MAJORS[0]} to {MAJORS[-1]}.",
        )

    def schema(self) -> dict[str, Any]:
        return {"enum": list(MAJORS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Time(Input):
    """Seconds, or a text such as 60s or 1.5min."""

    most: float = inf
    metavar: str = "TIME"
    unit: bool = False  # whether a text must name its unit: 27 is no service time

    def check(self, name: str, value: Any, /) -> float:
        """Return seconds."""
        if self.unit and isinstance(value, str) and value.strip()[-1:].isdigit():
            raise BadValue(f"no unit in {name} {value!r}", "Write 27ms, 0.5s or 2min.")
        with _said_of(name):
            seconds = parse_duration(value)
        if seconds > self.most:
            raise BadValue(
                f"{name} {value!r} is too long", f"Give at most {pretty_duration(self.most)}."
            )
        return seconds

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate(Input):
    """A number per second, or a text such as 400/s or 24000/min."""

    most: float = inf
    metavar: str = "RATE"

    def check(self, name: str, value: Any, /) -> float:
        with _said_of(name):
            rate = parse_rate(value)
        if rate > self.most:
            raise BadValue(f"{name} {value!r} is too high", f"Give at most {self.most:,.0f}/s.")
        return rate

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(Input):
    """A part of one: 0.9, or the text 90%."""

    least: float
    metavar: str = "SHARE"

    def parse(self, name: str, text: str, /) -> float:
        with _said_of(name):
            return parse_share(text)

    def check(self, name: str, value: Any, /) -> float:
        if not isinstance(value, (int, float)) or not self.least <= value <= 1:
            raise BadValue(
                f"{name} {value} is not a share", f"Give a share from {self.least:g} to 1."
            )
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "number", "minimum": self.least, "maximum": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(Input):
    """True or false."""

    metavar: str = ""

    def check(self, name: str, value: Any, /) -> bool:
        if not isinstance(value, bool):
            raise BadValue(f"{name} {value!r} is neither true nor false", "Give True or False.")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Names(Input):
    """Names of parameters: a list, or a text with commas."""

    metavar: str = "NAME,…"

    def check(self, name: str, value: Any, /) -> frozenset[str]:
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, Collection) or not all(isinstance(one, str) for one in given):
            raise BadValue(f"{name} {value!r} is no list of names", "Give names such as work_mem.")
        return frozenset(one.strip().lower() for one in given if one.strip())

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}


class MachineInputs(TypedDict, total=False):
    """What `mrtuner.tune` can be told about a machine; None means the same as leaving it out."""

    workload: Annotated[
        str | None,
        Choice(words=Workload, help="What the server is for", default="mixed"),
    ]
    memory: Annotated[
        str | int | None, Size(most=MOST_MEMORY, help="Memory PostgreSQL may use, such as 16GB")
    ]
    cpus: Annotated[int | None, CpuCount(help="Number of CPUs PostgreSQL may use")]
    storage: Annotated[str | None, Choice(words=Storage, help="Kind of storage")]
    disk: Annotated[
        str | int | None,
        Size(least=LEAST_DISK, most=MOST_DISK, help="Size of the volume of the data directory"),
    ]
    wal_disk: Annotated[
        str | int | None,
        Size(least=LEAST_DISK, most=MOST_DISK, help="Size of a separate volume for pg_wal"),
    ]
    iops: Annotated[
        int | None, Count(most=MOST_IOPS, help="I/O operations per second of the volume")
    ]
    throughput: Annotated[
        str | int | None,
        Size(
            most=MOST_DISK, rate=True,
            help="Throughput of the volume in bytes per second, such as 125MB",
        ),
    ]  # fmt: skip
    data: Annotated[str | int | None, Size(most=MOST_DISK, help="Size of all databases together")]
    connections: Annotated[
        int | None,
        Count(
            most=MOST_SESSIONS,
            help="Number of application sessions, without those the server reserves",
        ),
    ]
    active: Annotated[
        int | None,
        Count(
            most=MOST_SESSIONS, default="all may",
            help="Number of sessions that run a statement at the same time",
        ),
    ]  # fmt: skip
    huge_pages: Annotated[
        bool | None,
        Switch(help="Huge pages are, or will be, reserved for shared memory"),
    ]
    rto: Annotated[
        str | float | None,
        Time(help="Longest crash recovery allowed, such as 60s; it bounds max_wal_size"),
    ]
    postgres: Annotated[
        int | None,
        Version(flag="pg", help=f"PostgreSQL version, {MAJORS[0]}-{MAJORS[-1]}"),
    ]
    ceiling: Annotated[
        float | None,
        Share(
            least=0.1, default="90%",
            help="Largest share of memory that the worst case may use",
        ),
    ]  # fmt: skip
    lower: Annotated[
        str | Collection[str] | None,
        Names(help="Settings of yours that may be made smaller, such as work_mem", default="none"),
    ]


def declared(inputs: type) -> dict[str, Input]:
    """Return the declarations in a dictionary's type, by name, in their order."""
    hints = get_type_hints(inputs, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


#: The declarations by name, in the order in which `--help` lists them.
MACHINE: Final[Mapping[str, Input]] = declared(MachineInputs)


#: What a check needs to know of a machine that cannot be read over SQL.
OF_A_CHECK: Final = ("memory", "cpus", "storage", "disk", "wal_disk")


def checked(given: Mapping[str, Any], known: Mapping[str, Input] = MACHINE) -> dict[str, Any]:
    """Return the values given of these inputs, as they are used.

    Raises BadValue for an invalid value, TypeError for an unknown name.
    """
    for name in given.keys() - known.keys():
        raise TypeError(f"there is no argument {name!r}; there are: {', '.join(known)}")
    return {
        name: known[name].check(name, value) for name, value in given.items() if value is not None
    }
