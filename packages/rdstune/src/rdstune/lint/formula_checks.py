"""Checks of a formula: its grammar, its shape, its unit, and its results on each class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Final

from mrtuner.errors import BadValue
from mrtuner.formula.class_memory import VARIABLE
from mrtuner.formula.rds_formula import Braces, Formula, parse
from mrtuner.units import KiB, MiB
from rdstune.lint import suggestions
from rdstune.lint.context import ClassMachine, Subject, larger_only, sized_for_larger
from rdstune.lint.findings import Finding, Severity

#: Below this share of memory a cache size is a mistake: MB were meant, not pages.
_HARDLY_ANY: Final = Fraction(1, 200)
_CACHES: Final = frozenset({"shared_buffers", "effective_cache_size"})
#: The smallest loss by early division that matters.
_LOSS: Final = Fraction(1, 100)
#: Characters. Guessing the intended formula for longer texts would take too long.
_LONGEST: Final = 6000


def check_formula(subject: Subject) -> Iterator[Finding]:
    """Yield every problem of a value that is a formula, or was meant as one."""
    if len(subject.text) > _LONGEST:
        yield subject.finding(
            "not-a-formula", Severity.ERROR, f"a formula of {len(subject.text):,} characters",
            why="too long to be meant; it is not checked",
        )  # fmt: skip
        return
    formula = subject.formula
    if formula is None:
        yield from _not_a_formula(subject)
        return
    yield from _takes_none(subject)
    yield from _shape(subject, formula)
    yield from _division(subject, formula)
    wrong = list(_unit(subject, formula))
    yield from wrong
    if not wrong:
        yield from _range_of_formula(subject, formula)
        yield from _constant(subject, formula)


def _not_a_formula(subject: Subject) -> Iterator[Finding]:
    """Report why a value is not a formula; other mistakes before spaces, which are easy to see."""
    error = _without_spaces(subject.text) or subject.unreadable()
    if error is not None:
        better = suggestions.mended(subject.text)
        yield subject.finding(
            "not-a-formula", Severity.ERROR, error.message, why=error.hint,
            remedy=subject.write(better if better != subject.text else None),
        )  # fmt: skip


def _without_spaces(text: str) -> BadValue | None:
    try:
        parse("".join(text.split()))
    except BadValue as error:
        return error
    return None


def _takes_none(subject: Subject) -> Iterator[Finding]:
    if subject.takes_no_formula:
        kind = subject.known.data_type if subject.known else "text"
        yield subject.finding(
            "takes-no-formula", Severity.ERROR, f"type {kind} does not allow formulas",
            why="formulas are only for integer and Boolean parameters (RDS User Guide)",
            remedy="Write a plain value.",
        )  # fmt: skip


def _shape(subject: Subject, formula: Formula) -> Iterator[Finding]:
    if suggestions.nested(formula):
        yield subject.finding(
            "nested-functions", Severity.WARNING, f"nested functions: {formula}",
            why="not documented, and not used in AWS's own defaults",
            remedy="Use a single function of integers and braces.",
        )  # fmt: skip
    elif not formula.documented and not suggestions.truncating(formula):
        yield subject.finding(
            "undocumented-shape", Severity.INFO, f"not a documented form: {formula}",
            why="AWS documents {V}, {V*I}, {V*I/I} and {V/I}; others appear only in its defaults",
        )  # fmt: skip


def _division(subject: Subject, formula: Formula) -> Iterator[Finding]:
    """Report a division before a multiplication, which drops the remainder."""
    if not suggestions.truncating(formula):
        return
    exact = suggestions.multiplied_first(formula)
    losses = zip(
        subject.on_each(lambda each: _loss(each, formula, exact)), subject.machines, strict=True
    )
    loss, machine = max(losses, key=lambda pair: pair[0], default=(Fraction(0), None))
    default = subject.known is not None and subject.known.default == subject.text
    where = f" on {machine.instance_class.name}" if machine else ""
    yield subject.finding(
        "truncates-first",
        Severity.WARNING if loss >= _LOSS and not default else Severity.INFO,
        f"divides before it multiplies, losing {_percent(loss)}{where}",
        why="each quotient is truncated, from left to right"
        + ("; AWS's own default does the same" if default else ""),
        remedy=subject.write(str(exact)),
    )


def _loss(machine: ClassMachine, formula: Formula, exact: Formula) -> Fraction:
    right = machine.likely(exact)
    return Fraction(right - machine.likely(formula), right) if right > 0 else Fraction(0)


def _unit(subject: Subject, formula: Formula) -> Iterator[Finding]:
    """Report a memory size that exceeds the memory, or a cache that is hardly any of it.

    Only the part that grows with memory is judged: a cap is valid below it, a floor above it.
    """
    unit = subject.memory_unit
    if not unit or not subject.machines:
        return
    largest = subject.machines[-1]
    grown = suggestions.growth(formula, largest.middle, VARIABLE)
    if grown is None:
        return
    share = Fraction(grown * unit, largest.memory)
    shares = subject.on_each(lambda one: Fraction(one.likely(formula) * unit, one.memory))
    if share > 1 and max(shares) > 1:
        yield _too_much(subject, formula, share, shares)
    elif share < _HARDLY_ANY and max(shares) < _HARDLY_ANY and subject.entry.name in _CACHES:
        yield _too_little(subject, formula, share)


def _too_much(
    subject: Subject, formula: Formula, share: Fraction, shares: Sequence[Fraction]
) -> Finding:
    unit = subject.unit or 1
    asked, where = shares[-1], ""
    if asked <= 1:  # capped on this class
        asked = max(shares)
        where = f" of {subject.machines[shares.index(asked)].instance_class.name}"
    meant = _likely_unit(share, unit)
    better = suggestions.divided(formula, Fraction(unit, meant), VARIABLE) if meant else None
    counted = {1: "bytes", KiB: "kB", MiB: "MB"}.get(meant or 0)
    return subject.finding(
        "wrong-unit", Severity.ERROR,
        f"{formula} asks for {_times(asked)} times the memory{where}",
        why=f"{subject.entry.name} is measured in {subject.pages}"
        + (f", not in {counted}" if counted else ""),
        remedy=subject.write(str(better) if better else None),
    )  # fmt: skip


def _too_little(subject: Subject, formula: Formula, share: Fraction) -> Finding:
    times = Fraction(MiB, subject.unit or 1)
    better = suggestions.divided(formula, 1 / times, VARIABLE) if share * times <= 1 else None
    return subject.finding(
        "wrong-unit", Severity.WARNING, f"{formula} gives only {_percent(share)} of the memory",
        why=f"{subject.entry.name} is measured in {subject.pages}"
        + (", not in MB" if better else ""),
        remedy=subject.write(str(better) if better else None),
    )  # fmt: skip


def _likely_unit(share: Fraction, unit: int) -> int | None:
    """Return the largest unit in which the same number would be a part of the memory."""
    return next((each for each in (MiB, KiB, 1) if each < unit and share * each / unit <= 1), None)


def _range_of_formula(subject: Subject, formula: Formula) -> Iterator[Finding]:
    """Report what RDS or the server would refuse; a warning if only on the smallest classes."""
    refusals = subject.on_each(lambda each: _first_refusal(subject, each.values(formula)))
    refused = [
        (machine.instance_class.name, *refusal)
        for machine, refusal in zip(subject.machines, refusals, strict=True)
        if refusal
    ]
    if refused:
        name, value, error, severity = refused[0]
        names = [each[0] for each in refused]
        larger = larger_only(subject.machines, names)
        remedies = [_bounded(subject, formula, value), larger]
        yield subject.finding(
            "out-of-range",
            sized_for_larger(larger, names, subject.machines) if larger else severity,
            f"{formula} is refused on {subject.listed(names)}", why=f"{name}: {error.message}",
            remedy=". ".join(one for one in remedies if one) or error.hint,
        )  # fmt: skip


def _first_refusal(
    subject: Subject, values: Iterable[int]
) -> tuple[int, BadValue, Severity] | None:
    refusals = ((value, subject.refusal_of_number(value)) for value in values)
    return next(((value, *refusal) for value, refusal in refusals if refusal), None)


def _bounded(subject: Subject, formula: Formula, refused: int) -> str | None:
    """Return a remedy that limits plain arithmetic to the bound that it exceeds."""
    low, high = (subject.parameter.min, subject.parameter.max) if subject.parameter else (None,) * 2
    if not isinstance(formula, Braces):
        return None
    if low is not None and refused < low:
        return subject.write(f"GREATEST({formula},{low})")
    return (
        subject.write(f"LEAST({formula},{high})") if high is not None and refused > high else None
    )


def _constant(subject: Subject, formula: Formula) -> Iterator[Finding]:
    """Report formulas, or parts of them, that truncation turns into 0."""
    if len({machine.memory for machine in subject.machines}) < 2:
        return
    for part in suggestions.arithmetic(formula):
        values = subject.on_each(partial(ClassMachine.likely, formula=part))
        pairs = zip(subject.machines, values, strict=True)
        zero = [each.instance_class.name for each, value in pairs if not value]
        whole = part == formula
        if whole and subject.refusal_of_number(0):
            continue  # already reported, with the bounds
        if zero and (whole or len(zero) == len(subject.machines)):
            yield subject.finding(
                "truncates-to-zero", Severity.WARNING,
                f"{part} gives 0 on {subject.listed(zero)}", why="the quotient is truncated",
                remedy="Multiply before dividing, or set a floor with GREATEST."
                if whole else f"Remove {part}, or use a smaller divisor.",
            )  # fmt: skip


def _times(share: Fraction) -> str:
    return f"{float(share):,.0f}" if share >= 10 else f"{float(share):.1f}"


def _percent(share: Fraction) -> str:
    return f"{float(share * 100):.2g} %"
