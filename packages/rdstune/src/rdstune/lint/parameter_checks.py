"""Checks of one parameter of a group.

A check is a function of a `Subject`. A refusal that is only inferred for the family is a warning;
one that was observed in this family, or comes from PostgreSQL itself, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from mrtuner.catalog import Parameter
from mrtuner.catalog.families import Family
from mrtuner.errors import BadValue
from mrtuner.formula.grammar import braces, is_formula
from mrtuner.units import memory_unit, parse_bytes, pretty_bytes
from mrtuner.wording import enumerated
from rdstune.lint.any_family import known_names
from rdstune.lint.context import MEMORY, Subject, sure
from rdstune.lint.findings import Finding, Severity
from rdstune.lint.formula_checks import check_formula

_REFUSED_WHOLE: Final = "RDS rejects the whole call without naming the parameter"
_SUFFIXED: Final = re.compile(r"[0-9]+(\.[0-9]+)?\s*(B|[kKMGT](i?[bB])?|us|ms|s|min|h|d)")
_SHARE: Final = re.compile(r"([0-9]+)\s*%")


def check(subject: Subject) -> Iterator[Finding]:
    """Yield all problems of one parameter. If its value is unknown, only its name is checked."""
    yield from _name(subject)
    yield from _method(subject)
    if subject.entry.value is None:
        yield subject.finding(
            "not-known", Severity.INFO,
            f"the value is known only at deployment: {subject.entry.unknown}",
        )  # fmt: skip
    elif is_formula(subject.text):
        yield from check_formula(subject)
    else:
        yield from _literal(subject)


def _name(subject: Subject) -> Iterator[Finding]:
    """Check that it is in the family, user-settable, and valid in this kind of group."""
    if subject.entry.apply_type is not None:
        return  # AWS itself listed it
    known, family = subject.known, subject.family
    if subject.nowhere:
        yield subject.finding(
            "unknown-parameter", Severity.WARNING, "not a parameter of any known family",
            remedy=_close(subject.entry.name.lower()),
        )  # fmt: skip
    elif known is None:
        if family is not None:
            yield _unlisted(subject, family)
    elif not known.modifiable:
        where = family.name if family else "any known family"
        yield subject.finding(
            "not-modifiable", sure(not known.inferred), f"cannot be set in {where}",
            why=f"evidence: {known.evidence}", remedy="Remove it.",
        )  # fmt: skip
    elif known.level == "cluster" and not subject.cluster:
        yield subject.finding(
            "cluster-level", sure(not known.inferred),
            "belongs in the DB cluster parameter group", why=f"evidence: {known.evidence}",
            remedy="Move it to the cluster's group.",
        )  # fmt: skip


def _close(name: str) -> str:
    from difflib import get_close_matches  # only needed for an unknown name

    close = get_close_matches(name, known_names(), n=3, cutoff=0.8)
    return f"Did you mean {enumerated(close, 'or')}?" if close else ""


def _unlisted(subject: Subject, family: Family) -> Finding:
    """Report an unlisted name: lists of extensions' settings may be incomplete."""
    try:
        family.parameter(subject.entry.name)
        hint = ""
    except BadValue as error:
        hint = error.hint or ""
    ours = subject.parameter is None and "." not in subject.entry.name
    return subject.finding(
        "unknown-parameter", sure(ours), f"not a parameter of {family.name}",
        why="as far as we know: AWS publishes no list" if not ours else "", remedy=hint,
    )  # fmt: skip


def _method(subject: Subject) -> Iterator[Finding]:
    """Report needless waits, and `immediate` on a static one, which rejects the whole batch."""
    known, method = subject.known, subject.entry.method
    if known is None or method is None:
        return
    if known.apply_type == "static" and method == "immediate":
        yield subject.finding(
            "static-immediate", Severity.ERROR, "static, but to be applied immediately",
            why=_REFUSED_WHOLE, remedy="Use the apply method pending-reboot.",
        )  # fmt: skip
    elif known.apply_type == "dynamic" and method == "pending-reboot":
        yield subject.finding(
            "waits-needlessly", Severity.INFO, "dynamic, but set to wait for a reboot",
            remedy="Use the apply method immediate, unless it is meant to wait.",
        )  # fmt: skip


def _literal(subject: Subject) -> Iterator[Finding]:
    suffixed = list(_suffix(subject))
    yield from suffixed
    if suffixed:
        return
    refusal = subject.refusal(subject.text)
    if refusal is not None:
        error, severity = refusal
        yield subject.finding(
            "out-of-range", severity, error.message, remedy=error.hint or ""
        )  # fmt: skip
    else:
        yield from _more_than_memory(subject)


def _suffix(subject: Subject) -> Iterator[Finding]:
    """Report unit suffixes: RDS takes values in PostgreSQL's base units, without unit names."""
    parameter = subject.parameter
    if parameter is None or parameter.vartype not in {"integer", "real"}:
        return
    share = _SHARE.fullmatch(subject.text)
    if share is None and not _SUFFIXED.fullmatch(subject.text):
        return
    number = _share(subject, int(share[1])) if share else _number(parameter, subject.text)
    yield subject.finding(
        "unit-suffix", Severity.ERROR, f"{subject.text!r} is not a plain number",
        why=f"RDS takes numbers in {subject.pages}, without a suffix",
        remedy=subject.write(number) if share else f"Write {number}" if number else "",
    )  # fmt: skip


def _share(subject: Subject, percent: int) -> str | None:
    if not subject.memory_unit or not percent:
        return None
    return str(braces(MEMORY, Fraction(percent, 100 * subject.memory_unit)))


def _number(parameter: Parameter, text: str) -> str | None:
    """Return the text as the server would read it, accepting G for GB."""
    try:
        return str(parameter.parse(text))
    except BadValue:
        pass
    try:
        unit = memory_unit(parameter.unit or "")
        return str(parse_bytes(text) // unit) if unit else None
    except BadValue:
        return None


def _more_than_memory(subject: Subject) -> Iterator[Finding]:
    """Report a fixed size that exceeds the memory of some classes: a formula would fit all."""
    if not subject.memory_unit or not subject.text.isdigit():
        return
    number = int(subject.text)
    size = number * subject.memory_unit
    over = [each.instance_class.name for each in subject.machines if size > each.memory]
    if not over:
        return
    every, most = len(over) == len(subject.machines), 2 * len(over) > len(subject.machines)
    yield subject.finding(
        "wrong-unit" if every else "more-than-memory",
        Severity.ERROR if every else Severity.WARNING if most else Severity.INFO,
        f"{number} is {pretty_bytes(size)}, more than the memory of {subject.listed(over)}",
        why=f"{subject.entry.name} is measured in {subject.pages}",
        remedy=f"For {pretty_bytes(number)} write {number // subject.memory_unit}." if most else "",
    )
