"""DBInstanceClassMemory: an estimate for a class, or a measurement on an instance.

AWS publishes no values: it is the machine's memory minus what the operating system and RDS keep
for themselves, a part that is linear in the total. The lines below were fitted to default values
of max_connections read on live instances or published by AWS; each such value v under
``{DBInstanceClassMemory/d}`` bounds the memory to [v*d, (v+1)*d). No value is known above 32 GiB.

An instance itself is better evidence: a default of ``{DBInstanceClassMemory/16384}`` bounds its
memory to 16 KiB (`calibrated`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mrtuner.catalog.classes import AURORA, POSTGRES
from mrtuner.errors import BadValue
from mrtuner.formula.rds_formula import Formula, parse
from mrtuner.units import Bytes, GiB, MiB, pretty_bytes
from mrtuner.wording import enumerated

if TYPE_CHECKING:
    from mrtuner.catalog.classes import InstanceClass

VARIABLE: Final = "DBInstanceClassMemory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The likely DBInstanceClassMemory, and its likely bounds [bytes, both inclusive]."""

    value: Bytes
    low: Bytes
    high: Bytes
    source: str
    measured: bool  # read from this very instance, not inferred from similar ones
    extrapolated: bool = False  # beyond the largest class with a known value
    given: bool = False  # by the user, neither estimated nor measured
    notes: tuple[str, ...] = ()  # contradicting evidence, or reasons not to trust it

    def __str__(self) -> str:
        size = pretty_bytes(self.value)
        if self.low == self.high:
            return f"{size}, {self.source}"
        if self.measured:
            return f"{size}, measured to within {pretty_bytes(self.high - self.low + 1)}"
        return f"{size}, estimated ({pretty_bytes(self.low)} to {pretty_bytes(self.high)})"


@dataclass(frozen=True, slots=True)
class Fit:
    """The memory withheld: a fixed amount, and a share of the machine's memory."""

    fixed: Bytes
    share: Fraction
    source: str

    def memory(self, total: Bytes) -> Bytes:
        """Return what is left of a machine's memory [bytes], at least 0."""
        return Bytes(max(0, int(total - self.fixed - self.share * total)))


NITRO: Final = Fit(
    Bytes(326 * MiB),
    Fraction(362, 10_000),
    "the machine's memory less 326 MiB and 3.62 %: a fit to 8 classes of RDS for PostgreSQL, "
    "within 1.2 % from 2 to 32 GiB",
)
#: The RDS for MySQL classes of 2015. The four old PostgreSQL classes that are known are within
#: 3 % of it, and up to 17 % off the newer line. That it holds for PostgreSQL is inferred.
XEN: Final = Fit(
    Bytes(233 * MiB),
    Fraction(180, 10_000),
    "the machine's memory less 233 MiB and 1.80 %: inferred from RDS for MySQL's old classes",
)
AURORA_FIT: Final = Fit(
    Bytes(307 * MiB),
    Fraction(254, 10_000),
    "the machine's memory less 307 MiB and 2.54 %: a fit to AWS's own table for Graviton classes "
    "of Aurora PostgreSQL, exact from 4 to 32 GiB",
)

#: The largest class with a known value: beyond it the default of max_connections is capped at 5000.
LARGEST_READ: Final = Bytes(32 * GiB)
_BAND: Final = Fraction(2, 100)
#: Largest deviation of an old class from its line.
_XEN_ABOVE: Final = Fraction(3, 100)
#: Aurora's db.t3.medium has 3.7 % more than its Graviton twin; db.t3.large has the same amount.
_INTEL_ABOVE: Final = Fraction(4, 100)

#: Classes that deviate from their line but have known values: MiB, and the source.
_READ: Final[Mapping[tuple[str, str], tuple[float, str]]] = MappingProxyType(
    {
        (POSTGRES, "db.m1.large"): (7254, "read in 2013: {M/12582880} gave 604 on a db.m1.large"),
        (POSTGRES, "db.m1.xlarge"): (
            14784,
            "read in 2013: {M/16384} gave 924 MB on a db.m1.xlarge",
        ),
        (AURORA, "db.t3.medium"): (3822, "AWS's own table: 420 connections on a db.t3.medium"),
    }
)
_MICRO: Final = Bytes(722 * MiB)
_MICRO_SOURCE: Final = "read on live db.t4g.micro instances (79 connections by default)"


@cache
def class_memory(cls: InstanceClass, engine: str = POSTGRES) -> Estimate:
    """Return the likely memory of instances of a class [bytes].

    >>> from mrtuner.catalog.classes import instance_class
    >>> print(class_memory(instance_class("db.r6g.xlarge")))
    30.5 GB, estimated (29.9 GB to 31.1 GB)
    """
    aurora = engine == AURORA
    read = _READ.get((AURORA if aurora else POSTGRES, cls.name))
    if read is not None:
        return _around(Bytes(int(read[0] * MiB)), read[1])
    if aurora:
        above = _BAND if cls.graviton else _INTEL_ABOVE
        return _fitted(AURORA_FIT, cls.memory, above)
    if cls.xen:
        return replace(_fitted(XEN, cls.memory, _XEN_ABOVE), low=_nitro(cls.memory).low)
    return _nitro(cls.memory)


def given(memory: Bytes) -> Estimate:
    """Return an estimate for a DBInstanceClassMemory given by the user."""
    return Estimate(
        value=memory, low=memory, high=memory, source="as given", measured=True, given=True
    )


def _nitro(total: Bytes) -> Estimate:
    return _around(_MICRO, _MICRO_SOURCE) if total == GiB else _fitted(NITRO, total, _BAND)


def _fitted(fit: Fit, total: Bytes, above: Fraction) -> Estimate:
    beyond = total > LARGEST_READ
    source = f"{fit.source}; extrapolated above 32 GiB" if beyond else fit.source
    found = _around(fit.memory(total), source, above)
    return replace(found, high=min(found.high, total), extrapolated=beyond)


def _around(value: Bytes, source: str, above: Fraction = _BAND) -> Estimate:
    low, high = int(value * (1 - _BAND)), int(value * (1 + above))
    return Estimate(value=value, low=Bytes(low), high=Bytes(high), source=source, measured=False)


#: Upper end of the search [bytes]: no instance has more memory.
_MOST: Final = 1 << 47

#: Settings whose defaults reveal the memory, most exact first.
TELLING: Final = ("effective_cache_size", "shared_buffers", "max_connections")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpliedMemory:
    """One setting with its formula, and the implied memory [bytes, both inclusive]."""

    name: str
    value: int
    formula: str
    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.name} = {self.value} by {self.formula}"

    def agrees(self, low: int, high: int) -> bool:
        """Whether the memory may be between `low` and `high` [bytes, both inclusive]."""
        return self.low <= high and low <= self.high


def calibrated(
    values: Mapping[str, int],
    formulas: Mapping[str, str],
    *,
    machine: Mapping[str, int] | None = None,
    within: Estimate | None = None,
) -> Estimate:
    """Return an instance's DBInstanceClassMemory, derived from its settings.

    `values` are in base units, as pg_settings shows them; `formulas` are those believed to be in
    force; `machine` has their other variables. The interval that most settings agree on
    wins; the notes mention the settings that contradict it. A setting outside `within`, the
    estimate for the instance's class, is assumed to be user-set. Raises BadValue if no setting
    helps, or if settings contradict one another and nothing decides between them.
    """
    found, notes = _readings(values, formulas, machine or {})
    if within is not None:
        notes += [_stranger(each, within) for each in found if not _fits(each, within)]
        found = [each for each in found if _fits(each, within)]
    if not found:
        raise BadValue("no setting reveals the instance's memory", _hint(notes))
    agreed = _agreed(found)
    notes += [f"{each} contradicts that" for each in found if each not in agreed]
    return _measured(agreed, notes)


def implied(formula: Formula, value: int, machine: Mapping[str, int]) -> tuple[int, int] | None:
    """Return the least and largest memory [bytes] for which a formula gives this value, or None.

    The formula must not decrease as memory grows; none of AWS's defaults does. None for a value
    that it never gives, or gives for all memory beyond some size: a cap reveals nothing.
    """

    def at(memory: int) -> int:
        return formula.evaluate({**machine, VARIABLE: memory})

    low = bisect_left(range(_MOST), value, key=at)
    high = bisect_right(range(_MOST), value, key=at) - 1
    return (low, high) if low <= high < _MOST - 1 else None


def _readings(
    values: Mapping[str, int], formulas: Mapping[str, str], machine: Mapping[str, int]
) -> tuple[list[ImpliedMemory], list[str]]:
    found, notes = [], []
    for name in sorted(values.keys() & formulas.keys()):
        text, value = formulas[name], values[name]
        formula = parse(text)
        bounds = implied(formula, value, machine) if VARIABLE in formula.variables else None
        if bounds is None:
            notes.append(f"{name} = {value} reveals nothing with {text}")
        else:
            low, high = bounds
            found.append(ImpliedMemory(name=name, value=value, formula=text, low=low, high=high))
    return found, notes


def _fits(reading: ImpliedMemory, within: Estimate) -> bool:
    return reading.agrees(within.low, within.high)


def _stranger(reading: ImpliedMemory, within: Estimate) -> str:
    size = pretty_bytes(reading.low)
    return (
        f"{reading} would mean {size}, outside {pretty_bytes(within.low)} to "
        f"{pretty_bytes(within.high)} of the class: it was set explicitly"
    )


def _agreed(found: Sequence[ImpliedMemory]) -> list[ImpliedMemory]:
    """Return the largest set of readings with some memory in common; BadValue on a tie."""
    groups = {tuple(of for of in found if of.agrees(each.low, each.low)) for each in found}
    most = max(len(group) for group in groups)
    best = [group for group in groups if len(group) == most]
    if len(best) > 1:
        raise BadValue(
            f"the settings contradict one another: {_each(found)}",
            "At least one is not at its default. Name the instance's class to decide.",
        )
    return list(best[0])


def _each(found: Iterable[ImpliedMemory]) -> str:
    return "; ".join(f"{each} means {pretty_bytes(each.low)}" for each in found)


def _measured(agreed: Sequence[ImpliedMemory], notes: Sequence[str]) -> Estimate:
    low, high = max(each.low for each in agreed), min(each.high for each in agreed)
    return Estimate(
        value=Bytes((low + high) // 2),
        low=Bytes(low),
        high=Bytes(high),
        source=enumerated(agreed),
        measured=True,
        notes=tuple(notes),
    )


def _hint(notes: Sequence[str]) -> str:
    about = "; ".join(notes) or "none of " + ", ".join(TELLING) + " was given"
    return f"Give --class or --memory instead: {about}."


_SETTINGS: Final = """
SELECT name, setting::bigint FROM pg_catalog.pg_settings
 WHERE name IN ('effective_cache_size', 'shared_buffers', 'max_connections')
"""
_RDS: Final = "SELECT EXISTS (SELECT FROM pg_catalog.pg_settings WHERE name LIKE 'rds.%')"


def default_formulas(engine: str, major: int) -> dict[str, str]:
    """Return a family's default formulas that depend on memory and reveal it."""
    from mrtuner.catalog.families import family

    known = family(f"{engine}{major}").parameters
    texts = {name: known[name].default or "" for name in TELLING if name in known}
    return {name: text for name, text in texts.items() if VARIABLE in text}


def of_instance(
    dsn: str, engine: str = POSTGRES, *, vcpus: int | None = None, within: Estimate | None = None
) -> Estimate:
    """Return a running instance's memory, derived from its settings and the default formulas.

    Raises ConnectError and UsageError like `mrtuner.postgres.connect`, BadValue like `calibrated`.
    """
    from mrtuner.postgres.connect import connect, translated

    with connect(dsn) as conn, translated():
        major = conn.info.server_version // 10_000
        values: dict[str, int] = dict(conn.execute(_SETTINGS).fetchall())
        row = conn.execute(_RDS).fetchone()
    machine = {} if vcpus is None else {"DBInstanceVCPU": vcpus}
    found = calibrated(values, default_formulas(engine, major), machine=machine, within=within)
    if row == (True,):
        return found
    return replace(found, notes=(*found.notes, _NOT_RDS))


_NOT_RDS: Final = "the server shows no rds.* settings: on other servers these formulas do not apply"
