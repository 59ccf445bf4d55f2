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
from mrtuner.catalog.classes import POSTGRES
from mrtuner.catalog.families import Family, FamilyParameter
from mrtuner.errors import BadValue
from mrtuner.formula.class_memory import VARIABLE
from mrtuner.formula.rds_formula import braces, is_formula, parse
from mrtuner.units import memory_unit, parse_bytes, pretty_bytes
from mrtuner.wording import enumerated
from rdstune.lint.any_family import known_names
from rdstune.lint.context import Subject, sure
from rdstune.lint.findings import Finding, Severity
from rdstune.lint.formula_checks import check_formula

_REFUSED_WHOLE: Final = "RDS rejects the whole call without naming the parameter"
_SUFFIXED: Final = re.compile(r"[0-9]+(\.[0-9]+)?\s*(B|[kKMGT](i?[bB])?|us|ms|s|min|h|d)")
_SHARE: Final = re.compile(r"([0-9]+)\s*%")


def check(subject: Subject) -> Iterator[Finding]:
    """Yield all problems of one parameter. If its value is unknown, only its name is checked."""
    yield from _name(subject)
    yield from _method(subject)
    yield from _default(subject)
    if subject.entry.value is None:
        yield subject.finding(
            "not-known", Severity.INFO,
            f"the value is known only at deployment: {subject.entry.unknown}",
        )  # fmt: skip
    elif is_formula(subject.text):
        yield from check_formula(subject)
    else:
        yield from _literal(subject)
    yield from _aurora_buffers(subject)


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
    if known.apply_type == "static" and method == "immediate" and _reloads(subject, known):
        yield subject.finding(
            "static-immediate", Severity.WARNING,
            "static as far as is known, but to be applied immediately",
            why=f"evidence: {known.evidence}; the server itself needs only a reload. "
            f"If RDS calls it static, it{_REFUSED_WHOLE[3:]}",
            remedy="Use the apply method pending-reboot, which RDS accepts in any case.",
        )  # fmt: skip
    elif known.apply_type == "static" and method == "immediate":
        yield subject.finding(
            "static-immediate", Severity.ERROR, "static, but to be applied immediately",
            why=_REFUSED_WHOLE, remedy="Use the apply method pending-reboot.",
        )  # fmt: skip
    elif known.apply_type == "dynamic" and method == "pending-reboot":
        yield subject.finding(
            "waits-needlessly", Severity.INFO, "dynamic, but set to wait for a reboot",
            remedy="Use the apply method immediate, unless it is meant to wait.",
        )  # fmt: skip


def _aurora_buffers(subject: Subject) -> Iterator[Finding]:
    """Report shared_buffers of Aurora below half of memory everywhere: RDS's rule, not Aurora's."""
    family, known = subject.family, subject.known
    if family is None or family.engine == POSTGRES or known is None or known.default is None:
        return
    if subject.entry.name != "shared_buffers" or not subject.machines:
        return
    formula = subject.formula
    if subject.text.isdigit():
        formula = parse(subject.text)
    if formula is None:
        return
    size = subject.memory_unit or 1
    shares = subject.on_each(lambda one: Fraction(one.likely(formula) * size, one.memory))
    if Fraction(1, 100) < max(shares) < Fraction(1, 2):
        yield subject.finding(
            "aurora-buffers", Severity.WARNING,
            f"takes at most {float(max(shares)):.0%} of memory",
            why="Aurora's own default is about three quarters: its storage has no second cache, as "
            "the kernel's on RDS, so the rest of the memory caches nothing",
            remedy=f"Remove it, or write the default: {known.default}",
        )  # fmt: skip


def _reloads(subject: Subject, known: FamilyParameter) -> bool:
    """Whether `static` was inferred from another version, and this one needs no restart."""
    ours = subject.parameter
    return known.inferred and ours is not None and ours.context != "postmaster"


def _default(subject: Subject) -> Iterator[Finding]:
    """Report a value that AWS does not store, since it is the default: Terraform plans it forever.

    Source: AWS provider, aws_db_parameter_group: RDS registers an apply method only together with
    another value.
    """
    known = subject.known
    if not subject.terraform or known is None or known.default is None:
        return
    if known.stored(subject.text) == known.stored(known.default):
        yield subject.finding(
            "default-value", Severity.WARNING, f"{known.default} is the family's default",
            why="RDS registers no change, not even of the apply method alone, so every plan of "
            "Terraform shows it again"
            + (f" (evidence for the default: {known.evidence})" if known.inferred else ""),
            remedy="Remove it.",
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
    return str(braces(VARIABLE, Fraction(percent, 100 * subject.memory_unit)))


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
    every = len(over) == len(subject.machines)
    most = 2 * len(over) > len(subject.machines) or subject.machines[0].named
    yield subject.finding(
        "wrong-unit" if every else "more-than-memory",
        Severity.ERROR if every else Severity.WARNING if most else Severity.INFO,
        f"{number} is {pretty_bytes(size)}, more than the memory of {subject.listed(over)}",
        why=f"{subject.entry.name} is measured in {subject.pages}",
        remedy=f"For {pretty_bytes(number)} write {number // subject.memory_unit}." if most else "",
    )
