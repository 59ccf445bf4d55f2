"""The verdict and the advice in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mrtuner.catalog.classes import InstanceClass
from mrtuner.catalog.volumes import Volume
from mrtuner.limits.burst_balances import burst_credits_used_up, is_unlimited, surplus
from mrtuner.limits.ceilings import (
    BURST_MINUTES,
    BY_DEFINITION,
    Ceiling,
    CeilingKind,
    Resource,
    binding,
    peak,
)
from mrtuner.limits.levels import DISK, HIGH, PARTS, totals
from mrtuner.limits.metrics.series import MetricSeries
from mrtuner.limits.reached import Pegged
from mrtuner.limits.what_if import Candidate
from mrtuner.wording import enumerated

_UNKNOWN: Final = (
    "First find out whether it is a limit: add another load in such an hour, such as pg_dump of a "
    "large table. If the total rises, the level is the application's own pace. If it does not, "
    "there is a limit that AWS does not publish: another guest on the same host, or a volume "
    "slower than it should be. Show AWS support these hours."
)
_BEYOND: Final = (
    "That is above every published limit of this class and storage ({most}): burst credits, or a "
    "different class or storage than the one given. Check with aws rds describe-db-instances."
)

THROUGHPUTS: Final = frozenset(
    {Resource.THROUGHPUT, Resource.READ_THROUGHPUT, Resource.WRITE_THROUGHPUT}
)
OPERATIONS: Final = frozenset({Resource.IOPS, Resource.READ_IOPS, Resource.WRITE_IOPS})


_POOL: Final = "Connections have reached max_connections: use a pool, or raise it if memory allows."
_UNDECLARED: Final = (
    "no configured limit explains it. It may be the most that the device can do, a limit of the "
    "machine or cloud below it, or shared use. Compare it with the provider's figures for this "
    "disk."
)


def quantity(resource: Resource, value: float) -> str:
    """A value in a readable unit: decimal MB/s, operations per second, per cent."""
    if resource in THROUGHPUTS:
        return f"{value / 1e6:,.4g} MB/s" if value < 1e9 else f"{value / 1e6:,.0f} MB/s"
    if resource in {Resource.NETWORK_IN, Resource.NETWORK_OUT}:
        return f"{value / 125e6:.3g} Gbps"
    if resource in OPERATIONS:
        return f"{value:,.0f} IOPS"
    if resource is Resource.CPU:
        return f"{value:.3g} %"
    if resource is Resource.MEMORY:
        return f"{value / 1024**3:,.3g} GiB"
    return f"{value:,.0f}"


def level(one: Pegged) -> str:
    """A plateau's level to three digits."""
    if one.resource in THROUGHPUTS and one.plateau.level >= 1e8:
        return f"{one.plateau.level / 1e6:,.0f} MB/s"
    return quantity(one.resource, one.plateau.level)


#: US dollars for a vCPU hour of surplus credits. Source: Amazon RDS for PostgreSQL pricing, CPU
#: credits of T3 and T4g; from memory, not read again.
SURPLUS_PRICE: Final = 0.075


def lasting(minutes: float) -> str:
    """A duration such as ``75 s``, ``45 min``, ``7.5 h``."""
    if minutes < 2:
        return f"{minutes * 60:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:,.3g} h"


def surplus_words(hours: float) -> str:
    """What surplus credits were used and cost, of a class that is Unlimited."""
    return (
        f"CPU above the baseline used {hours:,.3g} vCPU hours of surplus credits; what is not "
        f"earned back within a day is charged, at most ${hours * SURPLUS_PRICE:,.2f}"
    )


def verdict(series: MetricSeries, pegged: Sequence[Pegged], instance: InstanceClass | None) -> str:
    """What binds, in one sentence."""
    if not pegged:
        spent = [
            f"{metric} for {lasting(minutes)}"
            for metric, _, _, minutes in burst_credits_used_up(series)
            if metric != "CPUCreditBalance" or instance is None or not is_unlimited(instance)
        ]
        said = "no hard limit was reached for long"
        if spent:
            said = (
                f"burst credits ran out ({', '.join(spent)}): the baseline applied then, but no "
                "level lasted"
            )
        elif instance is not None and (extra := surplus(series, instance)):
            said += f"; {surplus_words(extra)}"
        blind = [one for one in PARTS if one not in totals(series)]
        return f"{said}; {enumerated(blind)} could not be judged" if blind else said
    by_resource: dict[Resource, list[str]] = {}
    for one in pegged:
        lasted = lasting(series.minutes(one.plateau.points))
        by_resource.setdefault(one.resource, []).append(f"{level(one)} for {lasted}")
    parts = (f"{resource} pegged at {enumerated(at)}" for resource, at in by_resource.items())
    return "; ".join(parts)


def advice(
    instance: InstanceClass,
    volume: Volume | None,
    known: Sequence[Ceiling],
    pegged: Sequence[Pegged],
    candidates: Sequence[Candidate],
) -> Iterator[str]:
    """What to change, smallest step first, and what will not help."""
    if not pegged:
        return
    yield from _former(known, pegged)
    yield from _bursts(pegged)
    yield from _iops_will_not_help(instance, volume, pegged)
    yield from _unknown([one for one in pegged if one.ceiling is None], known)
    if any(one.resource is Resource.CONNECTIONS for one in pegged):
        yield _POOL
    if any(one.resource is not Resource.CONNECTIONS for one in pegged):
        yield from _larger(instance, volume, candidates)


def _unknown(unknown: Sequence[Pegged], known: Sequence[Ceiling]) -> Iterator[str]:
    """What to do about levels that no table lists: nothing that stops the instance."""
    within: list[Pegged] = []
    for one in unknown:
        published = [each.value for each in known if each.resource is one.resource]
        if published and one.plateau.level > HIGH * max(published):
            because = _BEYOND.format(most=quantity(one.resource, max(published)))
            yield f"Unknown ceiling at {level(one)}. {because}"
        else:
            within.append(one)
    if within:
        yield f"Unknown ceiling at {enumerated(map(level, within))}. {_UNKNOWN}"


def host_advice(pegged: Sequence[Pegged]) -> Iterator[str]:
    """What to change for a server outside RDS: what sets the limit, and where."""
    for one in pegged:
        if one.ceiling is None:
            yield f"Unknown {one.resource} ceiling at {level(one)}: {_UNDECLARED}"
        elif one.resource is Resource.CONNECTIONS:
            yield _POOL
        elif one.ceiling.source == BY_DEFINITION:
            yield f"100 % of {one.ceiling.note} is in use: add CPUs, or reduce the load."
        else:
            yield (
                f"{one.resource} stops at {quantity(one.resource, one.ceiling.value)}, set by "
                f"{one.ceiling.source} {one.ceiling.note}".rstrip()
                + ": raise it there, or reduce the load."
            )


def _former(known: Sequence[Ceiling], pegged: Sequence[Pegged]) -> Iterator[str]:
    old = [one for one in pegged if one.ceiling and one.ceiling.kind is CeilingKind.FORMER]
    if not old:
        return
    then = enumerated(quantity(one.resource, one.ceiling.value) for one in old if one.ceiling)
    most, least = peak(known, Resource.THROUGHPUT), binding(known, Resource.THROUGHPUT)
    today = [one for one in known if one.part == "instance" and one.kind is not CeilingKind.FORMER]
    now = enumerated(
        quantity(one.resource, one.value)
        for one in sorted(today, key=lambda each: -each.value)
        if one.resource is Resource.THROUGHPUT
    )
    yield (
        f"{then} are limits of an instance started before December 2019; its class now has {now}. "
        "Stop and start the instance to get them."
    )
    held = [one for one in (most, least) if one is not None and one.part == "volume"]
    if held:
        yield f"The volume then limits it to {quantity(Resource.THROUGHPUT, held[0].value)}."


def _bursts(pegged: Sequence[Pegged]) -> Iterator[str]:
    burst = [
        one for one in pegged if one.ceiling and one.ceiling.kind is CeilingKind.BURST
        and one.resource in DISK and one.ceiling.part == "instance"
    ]  # fmt: skip
    if burst:
        yield (
            f"{level(burst[0])} is a burst limit: it lasts at least {BURST_MINUTES} minutes in 24 "
            "hours, then the baseline applies. Plan with the baseline."
        )


def _iops_will_not_help(
    instance: InstanceClass,
    volume: Volume | None,
    pegged: Sequence[Pegged],
) -> Iterator[str]:
    """Warn of an expensive mistake from the field: buying IOPS where they do not bind."""
    if volume is None or not volume.provisioned:
        return
    reached = [one for one in pegged if one.resource is Resource.IOPS]
    may_be = [ceiling for one in reached for ceiling in (one.ceiling, *one.others)]
    if any(ceiling is not None and ceiling.part == "volume" for ceiling in may_be):
        return
    sustained = instance.ebs_baseline_iops
    bound = any(one.resource is Resource.THROUGHPUT for one in pegged)
    reasons: list[str] = []
    if sustained is not None and (volume.iops or 0) >= sustained:
        reasons.append(f"the instance sustains no more than {sustained:,} IOPS")
    if bound:
        reasons.append("throughput is the tighter limit")
    if bound or reached:
        because = ", and ".join(reasons) or "the limit reached is not the volume's"
        yield f"Raising provisioned IOPS will not help: {because}."


def _larger(
    instance: InstanceClass, volume: Volume | None, candidates: Sequence[Candidate]
) -> Iterator[str]:
    if not candidates:
        yield "No known class carries this load with room to spare: spread or reduce the load."
        return
    same = next((one for one in candidates if one.instance.name == instance.name), None)
    if same is not None:
        yield (
            "The class is enough, with its published limits."
            if same.volume == volume
            else f"The class is enough: change the volume to {same.volume}."
        )
        return
    first = candidates[0]
    with_ = f" with {first.volume}" if first.volume not in {None, volume} else ""
    yield (
        "Smallest class that carries the load without burst credits: "
        f"{first.instance.name}{with_}. "
        "Not every region offers it."
    )
    family = next((one for one in candidates if one.instance.family == instance.family), None)
    if family is not None and family is not first:
        yield f"In the same family: {family.instance.name}."
