"""Which hard limit was reached: ceilings, what was pegged at them and when, and remedies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from mrtuner.catalog.classes import InstanceClass, instance_class
from mrtuner.catalog.volumes import Volume, volume
from mrtuner.errors import UsageError
from mrtuner.facts import Missing
from mrtuner.limits.burst_balances import burst_credits_used_up, is_unlimited, surplus
from mrtuner.limits.ceilings import AURORA, Ceiling, Resource, ceilings
from mrtuner.limits.forecast import Forecast, forecasts
from mrtuner.limits.levels import PARTS, totals
from mrtuner.limits.metrics.series import FEWEST, MetricSeries
from mrtuner.limits.reached import Findings, Pegged, reached_ceilings
from mrtuner.limits.sentences import advice, host_advice, lasting, surplus_words, verdict
from mrtuner.limits.what_if import Candidate, Demand, candidates, judge, needs
from mrtuner.stats.plateaus import numpy
from mrtuner.wording import enumerated

_NOT_EBS: Final = (
    "Aurora's storage is not an EBS volume and its limits are not published, so only the limits "
    "of CPU, network, memory and connections are known; a ceiling of reads and writes is "
    "always unknown"
)
#: Below this share of free memory, PostgreSQL's page cache is squeezed out.
_MEMORY_FREE: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The answer for one instance, or for one server outside RDS."""

    name: str | None
    instance: InstanceClass | None  # None: not on RDS
    volume: Volume | None
    storage: str | None  # for display: the volume, Aurora's, or a host's device
    series: MetricSeries  # without points if only ceilings were requested
    ceilings: tuple[Ceiling, ...]
    findings: Findings
    needs: Mapping[Resource, Demand]
    what_if: Candidate | None
    notices: tuple[str, ...]
    incomplete: tuple[Missing, ...] = ()  # resources with too few metrics
    interrupted: bool = False  # the watch, by the user
    lost: bool = False  # the session, during the watch

    @property
    def unjudged(self) -> tuple[Missing, ...]:
        """The resources of which it is not known whether they reached a limit."""
        if not self.series.points:
            return (Missing("every resource", "nothing was measured", option="--watch 10m"),)
        return self.incomplete

    @property
    def pegged(self) -> tuple[Pegged, ...]:
        """What was at a ceiling, longest first."""
        return tuple(sorted(self.findings.pegged, key=lambda one: -one.plateau.points))

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """Sufficient classes, smallest first; empty if nothing was pegged."""
        if not self.pegged or self.instance is None or self.storage == AURORA:
            return ()
        return tuple(candidates(self.instance, self.volume, self.needs))

    @cached_property
    def forecasts(self) -> tuple[Forecast, ...]:
        """When each disk resource will reach its guaranteed limit."""
        return tuple(forecasts(self.series, self.ceilings, self.findings))

    @property
    def verdict(self) -> str:
        """The answer in one sentence."""
        if not self.series.points:
            return "nothing was measured; these are the configured ceilings"
        return verdict(self.series, self.pegged, self.instance)

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do and what will not help, one sentence each."""
        if self.instance is None or self.storage == AURORA:
            return tuple(host_advice(self.pegged))
        return tuple(
            advice(self.instance, self.volume, self.ceilings, self.pegged, self.candidates)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for --json, as `mrtuner.limits.document` describes it."""
        from mrtuner.documents import as_builtins
        from mrtuner.limits.document import limits_document

        return as_builtins(limits_document(self))


def limits(
    metrics: MetricSeries | Path | str,
    *,
    class_name: str,
    storage: str | Volume | None = None,
    what_if: Sequence[str] = (),
    connections: tuple[int, str] | None = None,
    name: str | None = None,
    timezone: str | None = None,
    throughput_unit: str | None = None,
) -> Limits:
    """Find which limit an instance reached, from its metrics.

    `metrics` is a series or a file to read (`read.read`), `storage` is written like
    ``gp3:500GB,12000iops,500MiB/s`` or ``aurora``, `what_if` names another class, another storage,
    or both.
    Raises BadValue for an unknown class or storage, UsageError if the metrics are too few.
    """
    instance = instance_class(class_name)
    aurora = storage == AURORA
    below = None if aurora else volume(storage) if isinstance(storage, str) else storage
    other = _other(what_if, instance, below)
    if aurora and other is not None:
        raise UsageError(
            "--what-if is not available for Aurora",
            "The limits of its storage are not published: leave out --what-if.",
        )
    series = _series(metrics, timezone, throughput_unit)
    missing = tuple(_missing(series))
    if not totals(series):
        raise UsageError(
            "no resource can be judged: " + "; ".join(one.why for one in missing),
            "Give both reads and writes: ceilings apply to their sum.",
        )
    known = ceilings(instance, below, connections=connections, aurora=aurora)
    findings = reached_ceilings(series, known)
    wanted = needs(series, findings)
    return Limits(
        name=name,
        instance=instance,
        volume=below,
        storage=AURORA if aurora else None if below is None else str(below),
        series=series,
        ceilings=known,
        findings=findings,
        needs=wanted,
        what_if=None if other is None else judge(*other, wanted),
        notices=(
            *series.notices, *_memory(series, known), *_credits(series, instance),
            *([_NOT_EBS] if aurora else []),
        ),
        incomplete=missing,
    )  # fmt: skip


def on_host(
    series: MetricSeries, known: Sequence[Ceiling], *, name: str | None, storage: str | None
) -> Limits:
    """Find the limit of a server outside RDS, from what was watched and what is declared.

    A series with too few points is ignored; its notices already say so.
    """
    enough = series.points > 0 and bool(totals(series))
    findings = reached_ceilings(series, known) if enough else Findings(pegged=(), steady=())
    return Limits(
        name=name,
        instance=None,
        volume=None,
        storage=storage,
        series=series,
        ceilings=tuple(known),
        findings=findings,
        needs=needs(series, findings) if enough else {},
        what_if=None,
        notices=(*series.notices, *_memory(series, known)),
        incomplete=tuple(_missing(series)),
    )


def _series(
    metrics: MetricSeries | Path | str, timezone: str | None, throughput_unit: str | None
) -> MetricSeries:
    if isinstance(metrics, MetricSeries):
        return metrics
    from mrtuner.limits.metrics.read import read

    return read(Path(metrics), timezone=timezone, throughput_unit=throughput_unit)


def _other(
    what_if: Sequence[str], instance: InstanceClass, below: Volume | None
) -> tuple[InstanceClass, Volume | None] | None:
    """Another class and volume; whatever is not named stays the same."""
    for text in what_if:
        if ":" in text:
            below = volume(text)
        else:
            instance = instance_class(text)
    return (instance, below) if what_if else None


def _missing(series: MetricSeries) -> Iterator[Missing]:
    """Report the resources of which too little was measured."""
    judged = totals(series)
    for resource, parts in PARTS.items():
        if resource in judged:
            continue
        absent = [name for name in parts if name not in series.metrics]
        few = f"fewer than {FEWEST} points have {enumerated(parts)}"
        yield Missing(str(resource), f"{', '.join(absent)} missing" if absent else few)


def _memory(series: MetricSeries, known: Sequence[Ceiling]) -> Iterator[str]:
    """Warn of low memory, which has no plateau: free memory shrinks, then the machine swaps."""
    np = numpy()
    free = series.metrics.get("FreeableMemory")
    whole = next((one.value for one in known if one.resource is Resource.MEMORY), None)
    if free is None or whole is None or not np.isfinite(free).any():
        return
    least = float(np.nanquantile(free, 0.01)) / whole
    if least < _MEMORY_FREE:
        yield f"memory: only {least:.1%} was free during the worst 1 % of the time"


def _credits(series: MetricSeries, instance: InstanceClass) -> Iterator[str]:
    """Burst balances that ran out: only the baseline was left, or surplus credits were used."""
    for metric, unit, empty, minutes in burst_credits_used_up(series):
        lasted = lasting(minutes)
        if metric == "CPUCreditBalance" and is_unlimited(instance):
            extra = surplus(series, instance)
            yield (
                f"{metric} was at {empty:g}{unit} or below for {lasted}; the class is Unlimited, "
                "so no baseline applied" + ("" if extra is None else f": {surplus_words(extra)}")
            )
        else:
            yield f"{metric} was at {empty:g}{unit} or below for {lasted}: burst credits ran out"


def calendar(pegged: Pegged, series: MetricSeries) -> list[list[float]]:
    """Total minutes at the ceiling by weekday (Monday first) and hour, UTC."""
    from mrtuner.stats.plateaus import inside

    np = numpy()
    at = inside(pegged.plateau.spans, series.points)
    start = series.start
    since_monday = start.weekday() * 86_400 + start.hour * 3600 + start.minute * 60 + start.second
    hours = (since_monday + np.flatnonzero(at) * series.step) // 3600 % 168
    counts = np.bincount(hours, minlength=168) * series.step / 60
    found: list[list[float]] = counts.reshape(7, 24).round(1).tolist()
    return found
