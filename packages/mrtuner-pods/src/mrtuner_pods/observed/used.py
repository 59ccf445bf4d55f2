"""Which observed figures a plan uses: given values take precedence, contradictions are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Any, Final

from mrtuner.described import Doc
from mrtuner_pods.observed.model import Observed
from mrtuner_pods.wording import milliseconds

_TIMES: Final = ("service_time", "cpu_time", "database_time")
#: Figures that mean nothing without the time in the database.
_NEEDS_DATABASE_TIME: Final = ("database_cpus", "pooler")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsFigure:
    """A figure that monitoring saw."""

    name: Annotated[str, Doc("the input that it is for; `samples`: the mean of measured times")]
    value: Annotated[float, Doc("times in seconds, rates a second, counts")]
    source: Annotated[str, Doc("where it was read")]
    used: Annotated[bool, Doc("whether the plan uses it; given values take precedence")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Inputs of a plan, completed with what was seen."""

    samples: tuple[float, ...]
    given: dict[str, Any]
    figures: tuple[PodsFigure, ...]
    warnings: tuple[str, ...]


def taken(observed: Observed, samples: tuple[float, ...], given: Mapping[str, Any]) -> Taken:
    """Return the inputs of a plan: those given, completed with what was observed."""
    chosen = {name: value for name, value in given.items() if value is not None}
    said = bool(samples) or "service_time" in chosen
    figures, warnings = [], []
    for name, fact in observed.figures():
        measured = name == "samples"
        of_service = measured or name == "service_time"
        free = not said if of_service else name not in chosen
        if measured and "variation" in chosen:
            free = False
        mean = fmean(fact.value) if measured else float(fact.value)
        if free and (doubt := _doubt(name, mean, samples, chosen)):
            warnings.append(f"{doubt} ({fact.source}): it is not used")
            free = False
        if free and measured:
            samples = fact.value
        elif free:
            chosen[name] = f"{fact.value:.9f}s" if name in _TIMES else fact.value
        figures.append(PodsFigure(name=name, value=mean, source=fact.source, used=free))
    return Taken(
        samples=samples, given=chosen, figures=tuple(figures),
        warnings=(*observed.warnings, *warnings),
    )  # fmt: skip


def _doubt(
    name: str, value: float, samples: tuple[float, ...], chosen: Mapping[str, Any]
) -> str | None:
    """Why a figure cannot be what it seems; None if it can."""
    if name in _NEEDS_DATABASE_TIME:
        return None if "database_time" in chosen else "the time in the database is not known"
    if name not in {"cpu_time", "database_time"}:
        return None
    mean = fmean(samples) if samples else _seconds(chosen.get("service_time"))
    if mean is None:
        return None
    other = _seconds(chosen.get("cpu_time" if name == "database_time" else "database_time")) or 0.0
    if value + other <= mean:
        return None
    where = "in the database" if name == "database_time" else "on the CPU"
    more = f" and {milliseconds(other)} elsewhere" if other else ""
    return (
        f"{milliseconds(value)} {where}{more} are more than the service time, {milliseconds(mean)}"
    )


def _seconds(value: object) -> float | None:
    from mrtuner.units import parse_duration

    return None if value is None else parse_duration(value)  # type: ignore[arg-type]
