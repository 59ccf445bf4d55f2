"""Parameter group families of RDS and Aurora PostgreSQL, as far as they are known.

AWS publishes no list for each family. families.json combines what could be found (one complete
answer of the API, exports and lists in public repositories, the user guides) with what follows
from PostgreSQL itself; every parameter names its source. `python tools/refresh_families.py`
writes the file, from the API if there are credentials.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Literal

from mrtuner.catalog.load import parameters, table
from mrtuner.catalog.parameter import Parameter
from mrtuner.catalog.spans import unfold
from mrtuner.errors import BadValue
from mrtuner.wording import enumerated

ENGINES: Final = ("postgres", "aurora-postgresql")
FIRST, LAST = 13, 18

#: Valid in one transaction only: ALTER ROLE and ALTER DATABASE refuse them. Source: guc_tables.c.
_OF_TRANSACTIONS: Final = "transaction_"
#: ``0-262143``, ``-1-2147483647``, ``0-1.79769e+308``
_RANGE = re.compile(r"(-?[0-9.]+(?:e\+?[0-9]+)?)-(-?[0-9.]+(?:e\+?[0-9]+)?)")
_INTEGER = re.compile(r"-?[0-9]+")
#: Words that RDS accepts for a Boolean and returns as 1 and 0.
_BOOLEANS: Final = {"on": "1", "true": "1", "off": "0", "false": "0"}
_NUMBER = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?", re.IGNORECASE)


#: Aurora's storage changes the meaning of these. Source: Aurora User Guide, storage and parameters.
AURORA: Final = {
    "shared_buffers": "Aurora sizes it itself: there is no kernel cache to leave memory for",
    "effective_cache_size": "Aurora sets it to its shared buffers: there is no other cache",
    "backend_flush_after": "Aurora's backends write no data pages",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyParameter:
    """One parameter in one family, with the fields of DescribeDBParameters."""

    name: str
    data_type: str  # DataType: boolean, integer, float, string, list
    apply_type: Literal["static", "dynamic"]  # ApplyType
    modifiable: bool  # IsModifiable
    allowed: str | None  # AllowedValues in AWS's spelling; None: anything, or unknown
    default: str | None  # ParameterValue of the default group; None: the engine's own, or unknown
    level: Literal["cluster", "instance"] = "instance"  # cluster: only in DB cluster groups
    evidence: str  # for people: tags in families.json's "sources"
    inferred: bool = False  # seen only in another major's family, or in none
    values_guessed: bool = False  # RDS may not support all that `allowed` lists

    @property
    def is_formula_allowed(self) -> bool:
        """Whether RDS may accept a formula here: only integers and Booleans take one, and not all.

        Source: RDS User Guide, USER_WorkingWithParamGroups, "DB parameter formulas".
        """
        return self.data_type in ("integer", "boolean")

    def check(self, value: str) -> None:
        """Raise BadValue for a literal outside AllowedValues; not for formulas.

        Words are compared ignoring case: the default of rds.force_autovacuum_logging_level is
        WARNING where the list has warning.
        """
        if self.allowed is None or self._takes(self.stored(value), self.allowed):
            return
        raise BadValue(
            f"{self.name} = {value!r} is not among the allowed values {self.allowed}",
            self._advice(),
        )

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return a number's range in its base unit; None where no range is known."""
        ends = _RANGE.fullmatch(self.allowed or "")
        return (float(ends[1]), float(ends[2])) if ends else None

    def stored(self, value: str) -> str:
        """Return a literal as DescribeDBParameters returns it: words for a Boolean as 1 and 0.

        Source: hashicorp/terraform-provider-aws issue 45394 (log_duration, postgres16), hashicorp/
        terraform issue 6902 (log_connections, postgres9.4); true and false: issue 8034 (MySQL).
        """
        bare = value.strip()
        return _BOOLEANS.get(bare.lower(), bare) if self.data_type == "boolean" else bare

    def literal(self, value: bool | int | float | str) -> str:
        """Return a value in PostgreSQL's base unit in RDS's spelling: Booleans are 1 and 0.

        Source: AllowedValues of every Boolean in the dumps is ``0,1``.
        """
        if isinstance(value, bool):
            yes, no = ("1", "0") if self.data_type == "boolean" else ("on", "off")
            return yes if value else no
        return f"{value:.15g}" if isinstance(value, float) else str(value)

    def _takes(self, value: str, allowed: str) -> bool:
        ends = _RANGE.fullmatch(allowed)
        if ends and self.data_type in ("integer", "float"):
            return self._is_number(value) and float(ends[1]) <= float(value) <= float(ends[2])
        words = {word.strip().lower() for word in allowed.split(",")}
        members = value.split(",") if self.data_type == "list" else [value]
        return all(member.strip().lower() in words for member in members)

    def _is_number(self, value: str) -> bool:
        whole = self.data_type == "integer"
        return (_INTEGER if whole else _NUMBER).fullmatch(value) is not None

    def _advice(self) -> str:
        match self.data_type:
            case "integer" | "float":
                how = "Write a plain number in PostgreSQL's base unit, without a suffix."
            case "boolean":
                how = "Write 1 or 0."
            case "list":
                how = "Write names from that list, separated by commas."
            case _:
                how = "Write one of them."
        return f"{how} Evidence: {self.evidence}."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """The parameters that groups of one family list, by name in lower case as AWS writes them."""

    name: str  # postgres17, aurora-postgresql17
    engine: Literal["postgres", "aurora-postgresql"]
    major: int
    parameters: Mapping[str, FamilyParameter]

    def parameter(self, name: str) -> FamilyParameter:
        """Return a parameter; BadValue where the family does not list it."""
        found = self.parameters.get(name.lower())
        if found is None:
            raise BadValue(f"{self.name} does not list {name}", self._elsewhere(name.lower()))
        return found

    def refusal(self, name: str) -> str | None:
        """Return why users cannot set a parameter in a group of this family; None if they can."""
        found = self.parameters.get(name.lower())
        if found is None:
            return f"{self.name} does not list {name}"
        if not found.modifiable:
            return f"{self.name} lists {name} as not modifiable ({found.evidence})"
        return None

    def refusals(self, names: Iterable[str]) -> dict[str, str]:
        """Return which of these users cannot set, or Aurora sizes itself, and why."""
        found = {name: why for name in names if (why := self.refusal(name)) is not None}
        return found | AURORA if self.engine.startswith("aurora") else found

    def _elsewhere(self, name: str) -> str:
        from difflib import get_close_matches  # only needed for an unknown name

        if name in parameters(self.major):  # not misspelt: RDS omits it on purpose
            return _left_out(parameters(self.major)[name])
        close = get_close_matches(name, self.parameters, n=3, cutoff=0.8)
        if close:
            return f"Did you mean {enumerated(close, 'or')}?"
        return "A group can hold only what DescribeDBParameters lists for its family."


def _left_out(parameter: Parameter) -> str:
    """Return what to do about a PostgreSQL parameter that a family's groups do not list."""
    if parameter.context == "user" and not parameter.name.startswith(_OF_TRANSACTIONS):
        return (
            "PostgreSQL has it, but RDS does not offer it in parameter groups. Set it with "
            f"ALTER DATABASE … SET {parameter.name} or ALTER ROLE … SET {parameter.name}."
        )
    return "PostgreSQL has it, but RDS does not let customers set it."


def families() -> tuple[str, ...]:
    """Return the names of all known families, RDS before Aurora, by version."""
    return tuple(f"{engine}{major}" for engine in ENGINES for major in range(FIRST, LAST + 1))


@cache
def family(name: str) -> Family:
    """Return a family by its name, such as ``postgres17``; BadValue if unknown."""
    if name not in families():
        raise BadValue(
            f"unknown parameter group family {name!r}",
            f"MrTuner knows {ENGINES[0]}{FIRST} to {LAST} and {ENGINES[1]}{FIRST} to {LAST}.",
        )
    engine: Any = name.rstrip("0123456789")
    major = int(name.removeprefix(engine))
    found = {one.name: one for one in _parameters(engine, major)}
    return Family(name=name, engine=engine, major=major, parameters=MappingProxyType(found))


def sources() -> Mapping[str, str]:
    """Return the meaning of each tag in `FamilyParameter.evidence`."""
    return MappingProxyType(table("families.json")["sources"])


def _parameters(engine: str, major: int) -> Iterator[FamilyParameter]:
    for name, folded in table("families.json")[engine].items():
        for span in unfold(folded):
            if span["since"] <= major <= span["until"]:
                yield _parameter(name, span, engine, major)


def _parameter(name: str, span: Mapping[str, Any], engine: str, major: int) -> FamilyParameter:
    return FamilyParameter(
        name=name,
        data_type=span["type"],
        apply_type=span["apply"],
        modifiable=not span.get("fixed", False),
        allowed=span.get("allowed"),
        default=span.get("default"),
        level=span.get("level", "instance"),
        evidence=_evidence(span["source"], span.get("seen"), engine, major),
        inferred=not _is_seen(span.get("seen"), major),
        values_guessed=span.get("seen") is None or _source_of_values(span["source"]) in _GUESSES,
    )


def _is_seen(seen: int | Literal[True] | None, major: int) -> bool:
    return seen is True or seen == major


def _evidence(source: str, seen: int | Literal[True] | None, engine: str, major: int) -> str:
    if seen is None:
        return f"guessed from {source}"
    return source if _is_seen(seen, major) else f"inferred from {engine}{seen}: {source}"


#: Tags of sources that do not show what RDS accepts.
_GUESSES: Final = frozenset({"guessed", "pg_settings"})


def _source_of_values(source: str) -> str:
    """Return the tag of the source of `allowed`.

    `source` is the tag of the whole row, then each field with a different tag, and that tag.

    >>> _source_of_values("copy postgres14; apply pg_settings")
    'copy postgres14'
    >>> _source_of_values("copy postgres14; apply UG; type pg_settings")
    'pg_settings'
    """
    whole, *others = source.split("; ")
    by_field = dict(other.partition(":")[0].split(" ", 1) for other in others)
    return by_field.get("allowed", by_field.get("type", whole))
