"""Find problems in a parameter group before RDS or the server does.

    for group in read(Path("main.tf")):
        for finding in lint(group):
            print(finding.location, finding.what, finding.remedy)

Every value is checked on every instance class of the family's engine. Nothing is changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import Any, Final

from mrtuner.catalog import MAJORS, parameters
from mrtuner.catalog.classes import POSTGRES, InstanceClass, instance_class, instance_classes
from mrtuner.catalog.families import ENGINES, FIRST, LAST, Family, FamilyParameter, families
from mrtuner.catalog.families import family as known_family
from mrtuner.errors import BadValue
from mrtuner.formula.class_memory import class_memory
from mrtuner.formula.rds_formula import machine_variables
from mrtuner.tuning.feasibility import NEED_MEMORY
from mrtuner.units import GiB, TiB
from mrtuner.wording import enumerated
from rdstune.group.budget import check_budget, keeps_budget
from rdstune.group.source import GroupEntry, WrittenGroup
from rdstune.lint.any_family import in_every_family, known_names
from rdstune.lint.context import ClassMachine, Machines, Subject
from rdstune.lint.findings import Finding, Severity
from rdstune.lint.parameter_checks import check

__all__ = ["Finding", "Severity", "lint"]

#: The smallest volume, a typical one, and the largest. Source: RDS User Guide, DB instance storage.
_STORAGE: Final = (20 * GiB, 100 * GiB, 64 * TiB)
#: Families of PostgreSQL that exist or may exist; up to 9.6, two numbers are the major version.
_POSTGRES: Final = re.compile(
    r"(?P<engine>postgres|aurora-postgresql)((?P<major>[1-9][0-9])|9\.[3-6])"
)
#: Findings of single parameters that are kept for the next group.
_KEPT: Final = 16_384
_ORDER: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def lint(
    group: WrittenGroup,
    *,
    family: str | None = None,
    classes: Iterable[InstanceClass] | None = None,
    smallest: InstanceClass | None = None,
) -> tuple[Finding, ...]:
    """Return the problems of a group, by line, the most severe of a line first.

    `family` is used when the file does not give one. To consider only some classes of the engine,
    pass `classes`, and `smallest` to leave out those with less memory; by default, if the file
    has instances that use the group, their classes are considered. A group for another engine
    gives a single finding that says so. A value that may be one of several is checked with each.
    """
    name = group.family or family or _needed(group)
    other = None if name is None else _other_engine(name)
    if other is not None:
        return (_of(group, other),)
    if name is None and group.unknown_family and not group.entries:
        return (_of(group, _unchecked(_passes_on(group), _AT_CALLERS)),)
    if name is None and not _is_of_postgresql(group):
        return (_of(group, _unchecked(_ANY_ENGINE, "Specify the family with --family.")),)
    known, about_family = _family(name, group)
    engine = known.engine if known else _engine(name) or POSTGRES
    if classes is None and smallest is None:
        classes = _classes_of_users(group)
    machines = _machines(engine, None if classes is None else tuple(classes), smallest)
    if not machines:
        raise BadValue(
            f"no class of {engine} that is considered has the memory of "
            f"{smallest.name if smallest else 'any'}",
            "Name a smaller class with --smallest, or other classes with --class.",
        )
    found = [*about_family, *_contradictions(group, name), *_of_group(group)]
    for variant in _variants(group):
        each = list(_each(variant, known, name, machines))
        found += each
        if not _hides_memory(variant):
            every, sound = (_sound(variant, each, methods) for methods in (False, True))
            over = list(_budget(sound, known, name, machines))
            # A value that is wrong only in its method may be what makes the others fit.
            found += over if every == sound or list(_budget(every, known, name, machines)) else ()
    placed = dict.fromkeys(_of(group, one) for one in found)
    return tuple(sorted(placed, key=lambda one: (one.line or 0, _ORDER[one.severity])))


#: RDS for MySQL and MariaDB have these too, with other rules. Source: MySQL, server system
#: variables.
_OF_OTHERS_TOO: Final = frozenset({"max_connections", "port", "lc_messages"})
_ANY_ENGINE: Final = (
    "no family or engine is given, and no parameter in the group is specific to PostgreSQL: "
    "not checked"
)


_AT_CALLERS: Final = "Check the files that call this module, or specify --family."


def _passes_on(group: WrittenGroup) -> str:
    """A module whose family and parameters are its variables has nothing of its own to check."""
    what = enumerated((group.unknown_family, *group.unread))
    return f"only passes on {what}: not checked"


def _is_of_postgresql(group: WrittenGroup) -> bool:
    """Whether a group without a family is PostgreSQL's, by an engine or a PostgreSQL parameter."""
    if any(user.engine for user in group.users):
        return any(user.engine in ENGINES for user in group.users)
    names = {entry.name.lower() for entry in group.entries} - _OF_OTHERS_TOO
    return not names.isdisjoint(known_names())


def _variants(group: WrittenGroup) -> Iterator[WrittenGroup]:
    """Yield the group with the first of its possible values, with the second, and so on."""
    for number in range(max((len(entry.either) for entry in group.entries), default=0) or 1):
        entries = tuple(_chosen(entry, number) for entry in group.entries)
        yield replace(group, entries=entries)


def _chosen(entry: GroupEntry, number: int) -> GroupEntry:
    if not entry.either:
        return entry
    return replace(entry, value=entry.either[min(number, len(entry.either) - 1)], unknown="")


def _budget(
    values: Mapping[str, str], known: Family | None, name: str | None, machines: Machines
) -> Iterator[Finding]:
    """Yield memory findings; without a family, only if both engines' newest families have some."""
    if known is not None or name is not None:
        yield from check_budget(values, known or _nearest(name or ""), machines)
        return
    first, *others = (
        list(check_budget(values, known_family(f"{engine}{LAST}"), machines)) for engine in ENGINES
    )
    if all(others):
        yield from first


def _nearest(name: str) -> Family:
    """Return the known family with the version nearest to an unknown one."""
    major = _POSTGRES.fullmatch(name)
    number = min(max(int(major["major"] or FIRST), FIRST), LAST) if major else LAST
    return known_family(f"{_engine(name) or POSTGRES}{number}")


# The users of the group in the same file.


def _needed(group: WrittenGroup) -> str | None:
    needed = {user.family for user in group.users}
    return needed.pop() if len(needed) == 1 else None


def _engine(name: str | None) -> str | None:
    found = _POSTGRES.fullmatch(name or "")
    return found["engine"] if found else None


def _classes_of_users(group: WrittenGroup) -> list[InstanceClass] | None:
    """Return the classes of the group's users; None if there are none or one is unknown."""
    if not group.users or not all(user.class_names for user in group.users):
        return None
    names = dict.fromkeys(name for user in group.users for name in user.class_names)
    try:
        return [instance_class(name) for name in names]
    except BadValue:
        return None


def _contradictions(group: WrittenGroup, name: str | None) -> Iterator[Finding]:
    """Yield an instance in the file that cannot use the group: another engine or major version."""
    for user in group.users:
        needs = user.family or user.engine
        if name is None or needs is None or needs in {name, _engine(name)}:
            continue
        if user.family is None and user.engine == _engine(name):
            continue
        yield Finding(
            check="family-mismatch",
            severity=Severity.ERROR,
            parameter=None,
            what=f"the family is {name}, but {user.name} uses this group and runs {needs}",
            why="RDS rejects a group whose family is not the instance's",
            remedy=f"Change the family to {needs}." if user.family else "",
            line=user.line,
        )


def _of(group: WrittenGroup, finding: Finding) -> Finding:
    """Add the location: findings about the group are at the group's own line."""
    return replace(finding, source=group.source, line=finding.line or group.line)


#: Families of RDS's other engines begin with these. Source: aws rds describe-db-engine-versions.
_OTHERS: Final = re.compile(
    r"(aurora-mysql|aurora5|custom|db2|docdb|mariadb|mysql|neptune|oracle|sqlserver)[-0-9]"
)


def _other_engine(name: str) -> Finding | None:
    if not _OTHERS.match(name):
        return None
    return Finding(
        check="other-engine",
        severity=Severity.INFO,
        parameter=None,
        what=f"{name} is not a PostgreSQL family: not checked",
    )


def _family(name: str | None, group: WrittenGroup) -> tuple[Family | None, list[Finding]]:
    """Return the family, or why names and bounds are not checked."""
    if name is None:
        given = "no family is given"
        if group.unknown_family:
            given = f"known only at deployment: {group.unknown_family}"
        why = f"{given}: only what is the same in all known families is checked"
        return None, [_unchecked(why, "Specify it with --family.")]
    if not _POSTGRES.fullmatch(name):
        return None, [_no_such_family(name)]
    try:
        return known_family(name), []
    except BadValue as error:
        why = f"{error.message}: only what is the same in all known families is checked"
        return None, [_unchecked(why, error.hint or "")]


def _no_such_family(name: str) -> Finding:
    from difflib import get_close_matches  # only needed for a family that does not exist

    close = get_close_matches(name, families(), n=1, cutoff=0.0)
    return Finding(
        check="no-such-family",
        severity=Severity.ERROR,
        parameter=None,
        what=f"there is no family {name}",
        why="RDS rejects it; only what is the same in all known families is checked",
        remedy=f"Write {close[0]}." if close else "",
    )


def _unchecked(what: str, remedy: str) -> Finding:
    return Finding(
        check="family-unknown",
        severity=Severity.INFO,
        parameter=None,
        what=what,
        remedy=remedy,
    )


def _of_group(group: WrittenGroup) -> Iterator[Finding]:
    for what in group.unread:
        yield Finding(
            check="not-known",
            severity=Severity.INFO,
            parameter=None,
            what=f"not checked: {what}",
        )
    times = Counter(entry.name.lower() for entry in group.entries)
    seen: set[str] = set()
    for entry in group.entries:
        if times[entry.name.lower()] > 1 and entry.name.lower() in seen:
            yield _duplicate(entry)
        seen.add(entry.name.lower())


def _duplicate(entry: GroupEntry) -> Finding:
    return Finding(
        check="duplicate",
        severity=Severity.ERROR,
        parameter=entry.name,
        what="set twice in this group",
        why="which value takes effect is undefined",
        remedy="Keep one.",
        line=entry.line,
    )


def _each(
    group: WrittenGroup, family: Family | None, name: str | None, machines: Machines
) -> Iterator[Finding]:
    for entry in group.entries:
        about = (replace(entry, line=None), family, name, machines, group.cluster, group.terraform)
        found = _by_itself(*about)
        if found is None:
            safe = partial(keeps_budget, group, entry, family, machines)
            found = tuple(check(replace(_subject(*about), safe=safe)))
        yield from (replace(one, line=entry.line) for one in found)


@lru_cache(maxsize=_KEPT)
def _by_itself(entry: GroupEntry, *about: Any) -> tuple[Finding, ...] | None:
    """Return an entry's findings; None where they depend on the rest of its group.

    Cached: groups of one company, or of one module, have most of their values in common.
    """
    asked = []

    def safe(better: str) -> bool:
        asked.append(better)
        return False

    found = tuple(check(replace(_subject(entry, *about), safe=safe)))
    return None if asked else found


def _subject(
    entry: GroupEntry, family: Family | None, name: str | None, machines: Machines, cluster: bool,
    terraform: bool,
) -> Subject:  # fmt: skip
    lower = entry.name.lower()
    return Subject(
        entry=entry,
        family=family,
        known=_known(entry, family, anyone=family is None),
        parameter=parameters(_major(name)).get(_CASED.get(lower, lower)),
        machines=machines,
        cluster=cluster,
        terraform=terraform,
        nowhere=name is None and "." not in lower and lower not in known_names(),
    )


#: RDS writes every name in lower case; PostgreSQL shows three that are not.
_CASED: Final = {"datestyle": "DateStyle", "intervalstyle": "IntervalStyle", "timezone": "TimeZone"}


def _major(name: str | None) -> int:
    """Return the major version of a family; the newest release if it is unknown."""
    found = _POSTGRES.fullmatch(name or "")
    major = int(found["major"] or 0) if found else 0
    return major if major in MAJORS else MAJORS[-2]


def _known(entry: GroupEntry, family: Family | None, *, anyone: bool) -> FamilyParameter | None:
    """Return the family's data on a parameter, overridden by what AWS itself reported.

    `anyone`: the family is not known, so what all families agree on is enough.
    """
    agreed = in_every_family() if anyone else {}
    known = (family.parameters if family else agreed).get(entry.name.lower())
    if known is None:
        return None
    said: dict[str, Any] = {
        "apply_type": entry.apply_type,
        "allowed": entry.allowed,
        "modifiable": entry.modifiable,
    }
    said = {field: value for field, value in said.items() if value is not None}
    return replace(known, **said, evidence="reported by AWS", inferred=False) if said else known


@lru_cache(maxsize=64)
def _machines(
    engine: str, classes: tuple[InstanceClass, ...] | None, smallest: InstanceClass | None
) -> Machines:
    each_of = instance_classes(engine).values() if classes is None else classes
    least = smallest.memory if smallest else 0
    named = classes is not None
    found = [_machine(each, engine, named=named) for each in each_of if each.memory >= least]
    return tuple(sorted(found, key=lambda each: each.memory))


@cache
def _machine(each: InstanceClass, engine: str, *, named: bool) -> ClassMachine:
    memory = class_memory(each, engine)
    points = _points((memory.low, memory.value, memory.high), each.vcpus)
    return ClassMachine(instance_class=each, points=points, named=named)


@cache
def _points(memory: tuple[int, int, int], vcpus: int) -> tuple[dict[str, int], ...]:
    sizes = zip(memory, _STORAGE, strict=True)
    return tuple(machine_variables(size, vcpus, storage) for size, storage in sizes)


def _hides_memory(group: WrittenGroup) -> bool:
    """Whether what the group needs at most follows from values that are not known."""
    hidden = {entry.name for entry in group.entries if entry.value is None}
    return bool(group.unread or hidden.intersection(NEED_MEMORY))


def _sound(group: WrittenGroup, found: Iterable[Finding], methods: bool) -> dict[str, str]:
    """Return the usable values: known, and without an error, be it only one of their `methods`."""
    wrong = {
        each.parameter for each in found
        if each.severity is Severity.ERROR and (methods or each.check != "static-immediate")
    }  # fmt: skip
    return {
        entry.name: entry.value
        for entry in group.entries
        if entry.value is not None and entry.name not in wrong
    }
