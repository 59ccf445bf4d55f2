"""The limits of an RDS volume by type, size and provisioning, from volumes.json.

Sizes are in GiB and throughputs in MiB/s, as RDS counts them; `Volume` uses bytes per second.
The effective limit is the smaller of the volume's and the instance's.

>>> volume("gp3:500GB,12000iops,500MiB/s").iops
12000
>>> volume("gp2:100GB").burst_seconds
2000.0
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from mrtuner.catalog.load import table
from mrtuner.errors import BadValue
from mrtuner.units import GiB, MiB, parse_bytes

TYPES: Final = ("gp2", "gp3", "io1", "io2", "standard")


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """The limits of one volume, for reads and writes together. None is an unknown limit."""

    kind: str  # of TYPES
    gib: int
    iops: int | None  # sustained
    throughput: int | None  # bytes per second
    burst_iops: int | None = None  # gp2: while its credits last
    burst_seconds: float | None = None  # from a full bucket
    stripes: int = 1

    @property
    def provisioned(self) -> bool:
        """Whether its IOPS are provisioned, and so can be raised."""
        return self.kind in {"gp3", "io1", "io2"}

    def __str__(self) -> str:
        parts = [f"{self.kind}:{self.gib}GB"]
        if self.provisioned and self.iops is not None:
            parts.append(f"{self.iops}iops")
        if self.kind == "gp3" and self.throughput is not None:
            parts.append(f"{self.throughput // MiB}MiB/s")
        return ",".join(parts)


def volume(text: str) -> Volume:
    """Parse ``gp3:500GB,12000iops,500MiB/s``; omitted parts have RDS's defaults.

    Raises BadValue for a type, unit or combination that RDS does not have.
    """
    kind, _, rest = text.strip().partition(":")
    parts = [part.strip() for part in rest.split(",") if part.strip()]
    if not parts:
        raise BadValue(f"no size in storage {text!r}", _FORM)
    iops = throughput = None
    for part in parts[1:]:
        if number := re.fullmatch(r"([0-9]+) ?iops", part, re.IGNORECASE):
            iops = int(number[1])
        elif number := re.fullmatch(r"([0-9]+) ?(MiB|MB)/s", part, re.IGNORECASE):
            throughput = int(number[1])
        else:
            raise BadValue(f"cannot read {part!r} in storage {text!r}", _FORM)
    gib = round(parse_bytes(parts[0]) / GiB)
    return volume_of(kind.lower(), gib, iops=iops, throughput=throughput)


_FORM: Final = "Write it as gp3:500GB,12000iops,500MiB/s, gp2:100GB or io1:400GB,20000iops."


def volume_of(
    kind: str, gib: int, *, iops: int | None = None, throughput: int | None = None
) -> Volume:
    """Return a volume by type and size [GiB], with provisioned IOPS and throughput [MiB/s].

    Raises BadValue for a combination that RDS does not have.
    """
    if kind not in _MAKERS:
        raise BadValue(f"unknown storage type {kind!r}", f"The types are {', '.join(TYPES)}.")
    if gib <= 0:
        raise BadValue(f"a volume cannot have {gib} GiB", _FORM)
    if throughput is not None and kind != "gp3":
        raise BadValue(f"the throughput of {kind} cannot be provisioned", "Omit it, or use gp3.")
    made: Volume = _MAKERS[kind](gib, iops, throughput)
    return made


def sources() -> Mapping[str, str]:
    found: dict[str, str] = table("volumes.json")["sources"]
    return MappingProxyType(found)


def before_december_2019(class_name: str) -> tuple[int | None, int | None]:
    """Return a class's baseline and maximum [Mbps] before that date; None if they did not change.

    An instance keeps the limits with which it was started until it is stopped and started again.
    """
    _, family, size = class_name.split(".")
    known = table("volumes.json")["before_december_2019"]
    if family not in known["families"] or size not in known["max_mbps"]:
        return None, None
    most = known["max_mbps"][size]
    return known["baseline_mbps"].get(size, most), most


def cpu_baseline(class_name: str) -> float | None:
    """Return the percentage of all vCPUs that a burstable class sustains; None for others."""
    _, family, size = class_name.split(".")
    found: float | None = table("volumes.json")["cpu_baseline_percent"].get(family, {}).get(size)
    return found


def _gp2(gib: int, iops: int | None, _throughput: int | None) -> Volume:
    if iops is not None:
        raise BadValue("gp2 has no provisioned IOPS", "They follow from its size: omit them.")
    known = table("volumes.json")["gp2"]
    stripes = 4 if gib >= known["stripe_gib"] else 1
    each = gib / stripes
    sustained = min(max(known["iops_per_gib"] * gib, known["least_iops"]), known["most_iops"])
    bursts = each < known["burst_until_gib"]
    per_stripe = known["small_mib_s"] if each <= known["small_gib"] else known["mib_s"]
    return Volume(
        kind="gp2",
        gib=gib,
        iops=sustained,
        throughput=min(per_stripe * stripes, known["most_mib_s"]) * MiB,
        burst_iops=known["burst_iops"] * stripes if bursts else None,
        burst_seconds=_gp2_burst(known, each) if bursts else None,
        stripes=stripes,
    )


def _gp2_burst(known: Mapping[str, Any], gib: float) -> float:
    """Return the seconds at burst rate from a full bucket; every stripe has its own bucket."""
    refill = max(known["iops_per_gib"] * gib, known["least_iops"])
    return float(known["credits"] / (known["burst_iops"] - refill))


def _gp3(gib: int, iops: int | None, throughput: int | None) -> Volume:
    known = table("volumes.json")["gp3"]
    striped = gib >= known["stripe_gib"]
    given = known["striped" if striped else "small"]
    iops, throughput = iops or given["iops"], throughput or given["mib_s"]
    if not striped and (iops, throughput) != (given["iops"], given["mib_s"]):
        raise BadValue(
            f"gp3 below {known['stripe_gib']} GiB always has 3000 IOPS and 125 MiB/s",
            "Omit them, or give the volume 400GB.",
        )
    _within("gp3", "IOPS", iops, min(known["most_iops"], known["iops_per_gib"] * gib))
    most = min(known["most_mib_s"], known["mib_s_per_iops"] * iops)
    _within("gp3", "MiB/s", throughput, most)
    stripes = 4 if striped else 1
    return Volume(kind="gp3", gib=gib, iops=iops, throughput=throughput * MiB, stripes=stripes)


def _io1(gib: int, iops: int | None, _throughput: int | None) -> Volume:
    known = table("volumes.json")["io1"]
    given = known["striped" if gib >= known["stripe_gib"] else "small"]
    iops = _bought("io1", iops)
    _within("io1", "IOPS", iops, min(given["iops"], known["iops_per_gib"] * gib))
    stripes = 4 if gib >= known["stripe_gib"] else 1
    return Volume(
        kind="io1", gib=gib, iops=iops, throughput=given["mib_s"] * MiB, stripes=stripes
    )  # fmt: skip


def _io2(gib: int, iops: int | None, _throughput: int | None) -> Volume:
    known = table("volumes.json")["io2"]
    iops = _bought("io2", iops)
    _within("io2", "IOPS", iops, min(known["most_iops"], known["iops_per_gib"] * gib))
    return Volume(kind="io2", gib=gib, iops=iops, throughput=None)


def _standard(gib: int, iops: int | None, _throughput: int | None) -> Volume:
    if iops is not None:
        raise BadValue("standard storage has no provisioned IOPS", "Omit them.")
    most = table("volumes.json")["standard"]["most_iops"]
    return Volume(kind="standard", gib=gib, iops=most, throughput=None)


def _bought(kind: str, iops: int | None) -> int:
    if iops is None:
        raise BadValue(f"{kind} needs provisioned IOPS", f"Write {kind}:400GB,20000iops.")
    return iops


def _within(kind: str, unit: str, value: float, most: float) -> None:
    if not 0 < value <= most:
        raise BadValue(
            f"{kind} of this size and IOPS allows up to {most:g} {unit}, not {value:g}",
            "Check the figures with: aws rds describe-db-instances.",
        )


_MAKERS: Final[Mapping[str, Any]] = {
    "gp2": _gp2, "gp3": _gp3, "io1": _io1, "io2": _io2, "standard": _standard,
}  # fmt: skip
