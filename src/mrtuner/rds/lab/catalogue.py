"""The parameters of a group family, as the lab's groups hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from mrtuner.catalog import Parameter, parameters
from mrtuner.errors import BadValue
from mrtuner.rds.lab.faults import invalid_value

_TYPES = {"bool": "boolean", "integer": "integer", "real": "float"}


@dataclass(frozen=True, slots=True)
class FamilyParameter:
    name: str
    data_type: str
    apply_type: str
    modifiable: bool
    allowed: str | None
    default: str | None

    def check(self, value: str) -> None:
        if self.allowed is None:
            return
        if "," in self.allowed or self.data_type == "boolean":
            if value not in self.allowed.split(","):
                raise BadValue("x")
        elif self.data_type in ("integer", "float"):
            low, _, high = self.allowed.rpartition("-")
            try:
                number = float(value)
            except ValueError:
                raise BadValue("x") from None
            if not float(low) <= number <= float(high):
                raise BadValue("x")


@cache
def entries(name: str) -> Mapping[str, FamilyParameter]:
    """Every parameter of a family by name; refused as RDS refuses a family it does not know."""
    engine = name.rstrip("0123456789")
    major = name[len(engine) :]
    if engine not in ("postgres", "aurora-postgresql") or not major or not 13 <= int(major) <= 18:
        raise invalid_value(f"ParameterGroupFamily {name} is not a valid parameter group family")
    return {each.name: _entry(each) for each in parameters(int(major)).values()}


_DEFAULTS = {
    "max_connections": "LEAST({DBInstanceClassMemory/9531392},5000)",
    "shared_buffers": "{DBInstanceClassMemory/32768}",
    "effective_cache_size": "{DBInstanceClassMemory/16384}",
}


def _entry(each: Parameter) -> FamilyParameter:
    if each.vartype == "bool":
        allowed: str | None = "0,1"
    elif each.enum:
        allowed = ",".join(each.enum)
    elif each.min is not None:
        allowed = f"{each.min}-{each.max}"
    else:
        allowed = None
    return FamilyParameter(
        each.name,
        _TYPES.get(each.vartype, "string"),
        "static" if each.restart else "dynamic",
        each.context != "internal",
        allowed,
        _DEFAULTS.get(each.name),
    )
