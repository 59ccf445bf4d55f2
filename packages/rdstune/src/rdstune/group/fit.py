"""Turn a rule's expression into a formula in a form that AWS documents.

AWS documents arithmetic in braces and one function around it; a rule's expression may nest
`least` in `greatest` over sums. An expression that fits a documented form is written exactly.
Otherwise candidates are made from the expression's own branches and from its values; of those
within the limits of every sample, the one closest to the rule's values wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from typing import Final

from mrtuner.formula.expression import Constant, Expr, Extreme, Sum, Term
from mrtuner.formula.rds_formula import Formula, Function, Integer, braces

#: A rule's variable and its name in RDS.
NAMES: Final[Mapping[str, str]] = {"memory": "DBInstanceClassMemory", "cpus": "DBInstanceVCPU"}
MEMORY: Final = NAMES["memory"]

#: Factors of the number of vCPUs to try.
_SHARES_OF_CPUS: Final = tuple(
    map(Fraction, ("1/32", "1/16", "1/8", "1/4", "1/2", "1", "3/2", "2"))
)

Machine = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SizeOnMachine:
    """A rule's value on one machine, in the parameter's base unit."""

    machine: Machine  # by RDS's names
    value: int
    most: int  # upper limit there, for any formula
    least: int = 0  # lower limit there
    weight: float = 1.0  # of being close to `value`


def exactly(expression: Expr) -> Formula | None:
    """Return the expression in a documented form, or None if there is none."""
    match _flat(expression):
        case Extreme(least, parts):
            found = [_simple(part) for part in parts]
            name = "LEAST" if least else "GREATEST"
            return _function(name, found)
        case Sum(parts):
            return _function("SUM", [_simple(part) for part in parts])
        case simple:
            return _simple(simple)


def nearest(expression: Expr, samples: Sequence[SizeOnMachine]) -> Formula:
    """Return the closest documented formula found that is within every sample's limits."""
    constant = Integer(min(sample.value for sample in samples))
    own = dict.fromkeys([*_branches(expression), constant])
    candidates = dict.fromkeys([*own, *_fitted(samples)])
    fitting = [each for each in candidates if _allowed(each, samples)]
    return max(
        fitting,
        key=lambda each: (round(nearness(each, samples), 3), each in own, -len(str(each))),
    )


def nearness(formula: Formula, samples: Iterable[SizeOnMachine]) -> float:
    """Return the closeness to the rule's values, 1 if equal, weighted by sample."""
    shares, weights = 0.0, 0.0
    for sample in samples:
        pair = sorted((formula.evaluate(sample.machine), sample.value))
        weights += sample.weight
        shares += sample.weight * (max(0, pair[0]) / pair[1] if pair[1] > 0 else 1.0)
    return shares / weights


def _allowed(formula: Formula, samples: Iterable[SizeOnMachine]) -> bool:
    return all(
        sample.least <= formula.evaluate(sample.machine) <= sample.most for sample in samples
    )


def _simple(expression: Expr) -> Formula | None:
    match expression:
        case Constant():
            return Integer(expression.evaluate({}))
        case Term(variable, factor) if factor > 0:
            return braces(NAMES[variable], factor)
    return None


def _function(name: str, arguments: Sequence[Formula | None]) -> Formula | None:
    known = [argument for argument in arguments if argument is not None]
    if len(known) < len(arguments):
        return None
    return known[0] if len(known) == 1 else Function(name, tuple(known))


def _flat(expression: Expr) -> Expr:
    """Merge nested leasts and nested greatests; drop parts that a larger constant hides."""
    if not isinstance(expression, Extreme):
        return expression
    parts: list[Expr] = []
    for part in map(_flat, expression.parts):
        same = isinstance(part, Extreme) and part.least == expression.least
        parts.extend(part.parts if same and isinstance(part, Extreme) else [part])
    constants = [part.evaluate({}) for part in parts if isinstance(part, Constant)]
    rest = [part for part in parts if not isinstance(part, Constant)]
    if constants:
        rest.append(Constant(min(constants) if expression.least else max(constants)))
    return Extreme(expression.least, tuple(rest)) if len(rest) > 1 else rest[0]


def _branches(expression: Expr) -> Iterator[Formula]:
    """Yield documented forms from the expression's structure, exact or below it."""
    exact = exactly(expression)
    if exact is not None:
        yield exact
    match _flat(expression):
        case Extreme(True, parts):  # below every part, so below the least
            for choice in product(*(list(_branches(part)) for part in parts)):
                yield from _flattened("LEAST", choice)
        case Extreme(False, parts):
            below = [list(_branches(part)) for part in parts]
            yield from (formula for branch in below for formula in branch)
            for choice in product(*(branch for branch in below if branch)):
                yield from _flattened("GREATEST", choice)
        case Sum(parts) if exact is None:
            yield from _without_positive_constant(parts)


def _flattened(name: str, choice: Sequence[Formula]) -> Iterator[Formula]:
    """Yield one function over all of `choice`, unless one of them has another kind of function."""
    arguments: list[Formula] = []
    for formula in choice:
        same = isinstance(formula, Function) and formula.name == name
        arguments.extend(formula.arguments if same and isinstance(formula, Function) else [formula])
    if arguments and not any(isinstance(argument, Function) for argument in arguments):
        distinct = tuple(dict.fromkeys(arguments))
        yield distinct[0] if len(distinct) == 1 else Function(name, distinct)


def _without_positive_constant(parts: Sequence[Expr]) -> Iterator[Formula]:
    """Yield a lower bound that fits inside a function: ``V`` for ``V + 4``."""
    rest = [part for part in parts if not (isinstance(part, Constant) and part.value >= 0)]
    if len(rest) == 1:
        yield from _branches(rest[0])


def _fitted(samples: Sequence[SizeOnMachine]) -> Iterator[Formula]:
    """Yield straight lines over memory or vCPUs that every sample allows."""
    heaviest = max(samples, key=lambda sample: sample.weight)
    points = _least_by_memory(samples)
    least = heaviest.machine[MEMORY]
    larger = [sample.most for sample in samples if sample.machine[MEMORY] >= least]
    caps = {heaviest.value, max(sample.value for sample in samples), min(larger)}
    for cap in sorted(caps):
        below = [Fraction(most, memory) for memory, most in points.items() if most < cap]
        if below and min(below) > 0:
            yield Function("LEAST", (_share_of_memory(min(below)), Integer(cap)))
    for low, high in pairwise(_lower_hull(points)):
        yield _line(low, high)
    floor = Integer(min(sample.value for sample in samples))
    for share in _SHARES_OF_CPUS:
        yield Function("GREATEST", (braces(NAMES["cpus"], share), floor))


def _least_by_memory(samples: Iterable[SizeOnMachine]) -> dict[int, int]:
    """Return the lowest limit for each amount of memory, over all numbers of vCPUs."""
    points: dict[int, int] = {}
    for sample in samples:
        memory = sample.machine[MEMORY]
        points[memory] = min(sample.most, points.get(memory, sample.most))
    return points


def _lower_hull(points: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return the corners of the convex line below all points; its edges exceed none of them.

    Source: Andrew's monotone chain, the lower half.
    """
    hull: list[tuple[int, int]] = []
    for point in sorted(points.items()):
        while len(hull) > 1 and _turns_right(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _turns_right(first: tuple[int, int], middle: tuple[int, int], last: tuple[int, int]) -> bool:
    run, rise = middle[0] - first[0], middle[1] - first[1]
    return run * (last[1] - first[1]) <= rise * (last[0] - first[0])


def _line(low: tuple[int, int], high: tuple[int, int]) -> Formula:
    """Return ``SUM({M/q},-c)`` or ``{M/q}``, just below both points; a constant if not rising."""
    if high[1] <= low[1]:
        return Integer(min(low[1], high[1]))
    share = _share_of_memory(Fraction(high[1] - low[1], high[0] - low[0]))
    offset = low[1] - share.evaluate({MEMORY: low[0]}) - 1
    return Function("SUM", (share, Integer(offset))) if offset < 0 else share


def _share_of_memory(share: Fraction) -> Formula:
    """Return a share, rounded down to one division: ``{DBInstanceClassMemory/1392641}``."""
    return braces(MEMORY, Fraction(1, -(-share.denominator // share.numerator)))
