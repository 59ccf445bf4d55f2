"""Ask every rule, in order, and turn each answer into a value that the server would accept."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Final

from mrtuner.catalog import Parameter, parameters
from mrtuner.errors import BadValue
from mrtuner.formula.expression import Constant, Expr, MissingVariable
from mrtuner.inputs import Storage
from mrtuner.postgres.missing_grants import SEE_FILES
from mrtuner.tuning import rules as _rules  # noqa: F401 - registers them
from mrtuner.tuning.advice import Advice
from mrtuner.tuning.budget import Chosen
from mrtuner.tuning.situation import (
    OF_OUR_SESSION,
    Cpus,
    Data,
    Disk,
    Memory,
    Rto,
    Situation,
    Throughput,
    WalDisk,
)
from mrtuner.tuning.verdict import (
    RULES,
    Basis,
    Change,
    Keep,
    OwnValue,
    Rule,
    Unknown,
    Value,
    Verdict,
)
from mrtuner.units import KiB, MiB, memory_unit

#: A value in force this little below the advice is kept: not worth a restart.
NEAR = 0.95
#: The command-line option that supplies a fact.
SUPPLY = {"memory": "--memory", "cpus": "--cpus"}
#: If a live server does not show a parameter, the role may not see it, or the fork lacks it.
SIGHT = "its current value (GRANT pg_read_all_settings TO the role)"
#: If a value of our role or database hides it, and the role may not read the files.
SERVERS_OWN = f"the server's own value, which ours hides ({SEE_FILES.rstrip('.')})"
#: What initdb writes where pg_settings has no default of its own.
INITDB: dict[str, Value] = {"shared_buffers": 128 * MiB // (8 * KiB), "max_connections": 100}


#: Decided before the others: sizes, and then the processes that may come on top of them. Parallel
#: workers are first, so that more CPUs never give fewer.
_FIRST = (
    "max_connections", "shared_buffers", "wal_buffers", "maintenance_work_mem",
    "hash_mem_multiplier", "autovacuum_work_mem", "io_method", "max_parallel_workers",
    "max_worker_processes", "autovacuum_max_workers", "io_workers", "io_max_workers",
)  # fmt: skip


def decide(
    situation: Situation, only: Collection[str] = RULES.keys()
) -> tuple[dict[str, Advice], Chosen]:
    """Return one `Advice` for each parameter that has a rule and exists in this major version.

    `only`: the rules to ask; what no rule was asked about is not in `Chosen`.
    """
    known = parameters(situation.major)
    chosen = Chosen()
    _remember_untouched(situation, known, chosen)
    machine = situation.machine
    advice: dict[str, Advice] = {}
    for name in (*_FIRST, *(name for name in RULES if name not in _FIRST)):
        parameter = known.get(name) if name in only else None
        if parameter is not None:
            advice[name] = _settle(RULES[name], parameter, situation, chosen, machine)
            _remember(advice[name], chosen)
    return {name: advice[name] for name in RULES if name in advice}, chosen


def _settle(
    rule: Rule,
    parameter: Parameter,
    situation: Situation,
    chosen: Chosen,
    machine: Mapping[str, int],
) -> Advice:
    now, origin = _in_force(parameter, situation)
    if _is_ours(rule, situation):
        now = None  # the server's own is counted as one that is hidden: by the default
    verdict = _answer(rule, situation, chosen)
    target, scales, asked = now, None, None
    if isinstance(verdict, Change):
        try:
            target, scales = _evaluate(verdict.to, parameter, machine)
            asked = scales
        except MissingVariable as gap:
            verdict, target = Unknown((SUPPLY[gap.args[0]],)), now
        else:
            verdict = _unless_settled(verdict, parameter, situation, now, target)
            if isinstance(verdict, Change):
                verdict = _unless_own(rule, verdict, parameter, situation, now, target)
            if isinstance(verdict, Keep):
                target, scales = now, None
    measured = None if isinstance(verdict, Unknown) else verdict.measured
    return Advice(
        rule=rule,
        parameter=parameter,
        verdict=verdict,
        now=now,
        origin=origin,
        target=target,
        scales=scales,
        asked=asked,
        described=not situation.live,
        shown=measured is not None and measured.covers(situation),
    )


def _answer(rule: Rule, situation: Situation, chosen: Chosen) -> Verdict:
    """Return the rule's verdict; `Keep` if the value is fixed, `Unknown` if a fact is missing."""
    if rule.name in situation.fixed:
        return Keep(situation.fixed[rule.name])
    if _hidden(rule.name, situation):
        return Unknown((SIGHT,))
    if _is_ours(rule, situation):
        return Unknown((SERVERS_OWN,))
    supplied, missing = {}, []
    for argument, kind, optional in _needs(rule.decide):
        fact = _fact(kind, situation, chosen)
        if fact is None and not optional:
            missing.append(_SUPPLY_OF[kind])
        supplied[argument] = fact
    return Unknown(tuple(missing)) if missing else rule.decide(**supplied)


def _fact(kind: type, situation: Situation, chosen: Chosen) -> object:
    if kind is Chosen:
        return chosen
    return situation if kind is Situation else getattr(situation, _FIELDS[kind.__name__])


@cache
def _needs(decide: Callable[..., Verdict]) -> tuple[tuple[str, type, bool], ...]:
    hints = typing.get_type_hints(decide)
    hints.pop("return")
    return tuple((name, *_unwrapped(hint)) for name, hint in hints.items())


def _unwrapped(hint: Any) -> tuple[type, bool]:
    if isinstance(hint, types.UnionType):
        kind = next(part for part in hint.__args__ if part is not type(None))
        return kind, True
    return hint, False


#: The field of a situation that holds a fact, by the name of the fact's class.
_FIELDS: Final = {str(one.type).removesuffix(" | None"): one.name for one in fields(Situation)}
_SUPPLY_OF: Mapping[type, str] = {
    Memory: "--memory",
    Cpus: "--cpus",
    Storage: "--storage",
    Disk: "--disk",
    WalDisk: "--wal-disk",
    Throughput: "--iops",
    Rto: "--rto",
    Data: "--data",
}


def _evaluate(
    to: Expr | Value, parameter: Parameter, machine: Mapping[str, int]
) -> tuple[Value, Expr | None]:
    """Return a rule's answer as a value in base units, and the expression behind it."""
    if isinstance(to, str):
        return parameter.parse(to), None
    unit = memory_unit(parameter.unit) if parameter.unit else None
    if unit is None and not isinstance(to, Expr):
        return _bounded(to, parameter), None
    scales = to if isinstance(to, Expr) else Constant(int(to))
    value = scales.evaluate(machine) // (unit or 1)
    return _bounded(_tidy(value, unit), parameter), scales


def _tidy(value: int, unit: int | None) -> int:
    """Round a size down to what a person would write: whole MB, or 64 kB below 16 MB."""
    if unit is None:
        return value
    step = MiB if value * unit >= 16 * MiB else 64 * KiB
    return value if step <= unit else value * unit // step * step // unit


def _bounded(value: Value, parameter: Parameter) -> Value:
    """Limit a value to the server's bounds; an enum value or a text is only checked."""
    if not isinstance(value, bool) and isinstance(value, (int, float)):
        if parameter.max is not None and value > parameter.max:
            value = parameter.max
        if parameter.min is not None and value < parameter.min:
            value = parameter.min
        if parameter.vartype == "real":
            value = float(value)
    parameter.check(value)
    return value


def _unless_settled(
    verdict: Change,
    parameter: Parameter,
    situation: Situation,
    now: Value | None,
    target: Value,
) -> Verdict:
    """Return `Keep` if the value in force is right, or too near to be worth a change."""
    if now == target:
        return Keep(f"already set: {verdict.because}", measured=verdict.measured)
    if situation.live and _near(parameter, now, target):
        return Keep(f"within 5 % of {parameter.show(target)}: {verdict.because}")
    return verdict


def _unless_own(
    rule: Rule,
    verdict: Change,
    parameter: Parameter,
    situation: Situation,
    now: Value | None,
    target: Value,
) -> Verdict:
    """Return `Keep` for a value that a person chose, unless it is raised or there is evidence.

    Evidence is an option that asks for it, or this server's own counters. A value equal to the
    default counts as nobody's: files that initdb or a package wrote cannot be told from choices.
    """
    name = rule.name
    if not situation.chosen_by_person(name) or now == _default(parameter) or rule.suggestion:
        return verdict
    observed = verdict.basis is Basis.OBSERVED and (
        verdict.calls_for_less or rule.own is not OwnValue.RAISED or not _less(target, now)
    )
    if verdict.asked or observed or name in situation.lower:
        return verdict
    if rule.own is not OwnValue.LEFT and _improves(rule.own, now, target):
        return verdict
    return Keep(f"your choice; without it: {parameter.show(target)}, {verdict.because}")


def _improves(own: OwnValue, now: Value | None, target: Value) -> bool:
    """Whether the target is on the harmless side of a person's value; words have no order.

    Whoever sets a number to 0 has switched something off: that is no small number.
    """
    if now is None or isinstance(now, str) or isinstance(target, str):
        return now is None or isinstance(target, str)
    if own is OwnValue.LOWERED:
        return target < now
    return target > now and (now is False or now != 0)


def _less(one: Value | None, other: Value | None) -> bool:
    if one is None or other is None or isinstance(one, str) or isinstance(other, str):
        return False
    return one < other


def _near(parameter: Parameter, now: Value | None, target: Value) -> bool:
    """Whether a size in force is slightly below the target; a larger one may exceed the budget."""
    memory = parameter.unit is not None and memory_unit(parameter.unit) is not None
    if not memory or isinstance(now, (str, bool)) or now is None or isinstance(target, str):
        return False
    return 0 < target * NEAR <= now <= target


def _hidden(name: str, situation: Situation) -> bool:
    return situation.live and name not in situation.running


def _is_ours(rule: Rule, situation: Situation) -> bool:
    """Whether a value of our session hides the server's; a suggestion is for sessions anyway."""
    return not rule.suggestion and situation.origins.get(rule.name) in OF_OUR_SESSION


def _in_force(parameter: Parameter, situation: Situation) -> tuple[Value | None, str]:
    if _hidden(parameter.name, situation):
        return None, "hidden"
    text = situation.running.get(parameter.name)
    if text is not None:
        return as_value(parameter, text), situation.origins.get(parameter.name, "")
    return _default(parameter), "default"


def _default(parameter: Parameter) -> Value | None:
    return INITDB.get(parameter.name) if parameter.default is None else parameter.default


def as_value(parameter: Parameter, text: str) -> Value:
    """Return a live value even if out of bounds: the server's own build accepted it."""
    try:
        return parameter.parse(text)
    except BadValue:
        return text


def _remember(advice: Advice, chosen: Chosen) -> None:
    """Record what later rules and the budget build on."""
    parameter, value = advice.parameter, _counted_as(advice)
    if value is None:
        return
    chosen.plain[parameter.name] = value
    unit = memory_unit(parameter.unit) if parameter.unit else None
    if unit is None or isinstance(value, str):
        return
    exact = Constant(int(value) * unit)
    chosen.actual[parameter.name] = exact
    chosen.sizes[parameter.name] = exact if advice.scales is None else advice.scales


def _counted_as(advice: Advice) -> Value | None:
    """Return the value in force afterwards; -1 if the server still chooses it itself.

    Source: xlog.c, XLOGShmemSize: wal_buffers of -1 is shown as the resulting size.
    """
    if advice.target is None:
        return _default(advice.parameter)
    worked_out = advice.parameter.default == -1 and advice.origin in {"default", "computed"}
    return -1 if worked_out and not advice.changes else advice.target


_COUNTED_EARLY = (
    "max_worker_processes", "max_parallel_workers", "autovacuum_max_workers",
    "autovacuum_worker_slots", "autovacuum", "io_method", "io_workers", "io_max_workers",
)  # fmt: skip


def _remember_untouched(
    situation: Situation, known: Mapping[str, Parameter], chosen: Chosen
) -> None:
    """Record parameters that the budget needs before their own rule has been asked."""
    for name in _COUNTED_EARLY:
        if name in known:
            value, _ = _in_force(known[name], situation)
            if value is None:
                value = _default(known[name])
            if value is not None:
                chosen.plain[name] = value
