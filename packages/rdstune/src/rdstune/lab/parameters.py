"""The strict rules for a batch of at most twenty: names, values, formulas, apply methods.

A static parameter with the method `immediate` rejects the whole batch, even if its value does not
change, and the message names no parameter: seen in public reports (our reference, 1.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from mrtuner.catalog.families import FamilyParameter
from mrtuner.errors import BadValue
from mrtuner.formula import rds_formula
from rdstune.lab.pages import Row
from rdstune.lab.refusals import invalid_combination, invalid_value
from rdstune.lab.world import Value

#: Source: botocore, ModifyDBParameterGroupMessage and ResetDBParameterGroupMessage.
MOST: Final = 20
_METHODS: Final = ("immediate", "pending-reboot")

Entries = Mapping[str, FamilyParameter]


def batch(known: Entries, asked: Sequence[Mapping[str, Any]]) -> dict[str, Value]:
    """Return the values that a Modify sets; Fault when one of them, or the batch, is invalid."""
    _check(asked)
    changes = {each.get("ParameterName", ""): _value(known, each) for each in asked}
    _methods(known, {name: value.method for name, value in changes.items()})
    return changes


def reset_batch(known: Entries, asked: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the names and methods of a Reset of listed parameters."""
    _check(asked)
    methods = {_known(known, each).name: _method(each) for each in asked}
    _methods(known, methods)
    return methods


def full_reset(known: Entries, values: Iterable[str]) -> dict[str, str]:
    """Return the method for each value: dynamic ones are reset immediately, static at a restart.

    Source: botocore's model.
    """
    return {
        name: "immediate" if known[name].apply_type == "dynamic" else "pending-reboot"
        for name in values
    }


def rows(known: Entries, values: Mapping[str, Value]) -> Iterator[Row]:
    """Yield every parameter as DescribeDBParameters shows it, by name."""
    for name in sorted(known):
        yield _row(known[name], values.get(name))


def _row(entry: FamilyParameter, value: Value | None) -> Row:
    return {
        "ParameterName": entry.name,
        "ParameterValue": value.text if value else entry.default,
        "Source": "user" if value else "engine-default" if entry.default is None else "system",
        "ApplyType": entry.apply_type,
        "DataType": entry.data_type,
        "AllowedValues": entry.allowed,
        "IsModifiable": entry.modifiable,
        "ApplyMethod": value.method if value else "pending-reboot",
    }


def _check(asked: Sequence[Mapping[str, Any]]) -> None:
    if not asked:
        raise invalid_combination("One or more parameters must be specified")
    if len(asked) > MOST:
        raise invalid_value(f"No more than {MOST} parameters may be specified in one request")
    names = [each.get("ParameterName") for each in asked]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise invalid_value(f"Parameter {twice} is specified more than once")


def _value(known: Entries, asked: Mapping[str, Any]) -> Value:
    entry = _known(known, asked)
    if not entry.modifiable:
        raise invalid_value(f"The parameter {entry.name} cannot be modified")
    text = asked.get("ParameterValue")
    if text is None:
        raise invalid_value(f"The parameter {entry.name} must be provided with a value")
    _taken(entry, text)
    kept = text if rds_formula.is_formula(text) else entry.stored(text)
    return Value(kept, _method(asked))


def _known(known: Entries, asked: Mapping[str, Any]) -> FamilyParameter:
    name = asked.get("ParameterName", "")
    if name not in known:
        raise invalid_value(f"Could not find parameter with name: {name}")
    return known[name]


def _taken(entry: FamilyParameter, text: str) -> None:
    """Accept a valid formula where one is allowed, else a literal within AllowedValues."""
    try:
        if rds_formula.is_formula(text):
            _formula(entry, text)
        else:
            entry.check(text)
    except BadValue:
        raise invalid_value(f"Invalid parameter value: {text} for: {entry.name}") from None


def _formula(entry: FamilyParameter, text: str) -> None:
    if not entry.is_formula_allowed:
        raise invalid_value(f"Invalid parameter value: {text} for: {entry.name}")
    rds_formula.parse(text)


def _method(asked: Mapping[str, Any]) -> str:
    method: str = asked.get("ApplyMethod", "")
    if method not in _METHODS:
        raise invalid_value(f"Invalid apply method: {method}")
    return method


def _methods(known: Entries, methods: Mapping[str, str]) -> None:
    for name, method in methods.items():
        if method == "immediate" and known[name].apply_type == "static":
            raise invalid_combination("cannot use immediate apply method for static parameter")
