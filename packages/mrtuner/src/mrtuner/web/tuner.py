"""The tuner page's questions and answers: the form, and the advice for what was entered.

The page calls these two functions in the browser, where Pyodide runs them; so this module imports
nothing that is compiled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mrtuner.errors import BadValue, MrTunerError, UsageError
from mrtuner.inputs import MACHINE, Choice, Input, Size, Switch, Version

if TYPE_CHECKING:
    from mrtuner.tuning import Tuning
    from mrtuner.tuning.advice import Advice

#: What the form asks for first; the rest is behind a fold.
_FIRST = ("postgres", "workload", "memory", "cpus", "storage", "connections")
#: Units to choose from for a size that is entered as a bare number; the first is the usual one.
_UNITS = ("GB", "MB", "TB")
#: What makes sense only for a server that runs.
_OF_A_SERVER = ("lower",)


def form() -> list[dict[str, Any]]:
    """Return the fields, the most important first; each with its words or units to choose from."""
    order = [*_FIRST, *(name for name in MACHINE if name not in {*_FIRST, *_OF_A_SERVER})]
    return [_field(name, MACHINE[name]) for name in order]


def _field(name: str, of: Input) -> dict[str, Any]:
    words = of.schema().get("enum", []) if isinstance(of, Choice | Version) else []
    return {
        "name": name, "flag": of.flag or name.replace("_", "-"), "help": of.help,
        "default": of.default, "metavar": of.metavar, "first": name in _FIRST,
        "words": [str(word) for word in words], "switch": isinstance(of, Switch),
        "units": list(_UNITS) if isinstance(of, Size) else [],
    }  # fmt: skip


def answer(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the advice for what was entered, or ``{"error": …}`` with a message and a hint.

    `given` has texts by the names of `form`; an empty one counts as not given.
    """
    try:
        return shown_advice(_tuned(given))
    except MrTunerError as error:
        return {"error": {"message": error.message, "hint": error.hint}}


def _tuned(given: Mapping[str, str]) -> Tuning:
    from mrtuner.tuning import tune

    values = entered(given)
    if not {"memory", "cpus"} <= values.keys():
        # Without them, `tune` would look at the machine it runs on.
        raise UsageError("memory and CPUs are needed", "Enter both, such as 16GB and 4.")
    return tune(**values)


def entered(given: Mapping[str, str]) -> dict[str, Any]:
    """Return what was entered, as arguments of `tune`.

    Raises:
        BadValue: there is no such input, or its value cannot be used.
    """
    return {name: _value(name, text) for name, text in given.items() if text}


def shown_advice(tuning: Tuning) -> dict[str, Any]:
    """Return the advice as the page shows it, and as text in every format."""
    from mrtuner.formats import NAMES
    from mrtuner.present.text import Look
    from mrtuner.tuning.pgtune import SOURCE, differences
    from mrtuner.tuning.report.text import screen

    return {
        "title": tuning.title,
        "settings": [_setting(one) for one in tuning.values() if one.changes or one.suggested],
        "budget": _budget(tuning),
        "notices": [notice.text for notice in tuning.notices],
        "pgtune": {"source": SOURCE, "differences": [asdict(one) for one in differences(tuning)]},
        "texts": {
            "text": "".join(f"{line}\n" for line in screen(tuning, Look(bar="█"))),
            **{name: tuning.as_(name) for name in sorted(NAMES)},
        },
    }


def _setting(of: Advice) -> dict[str, Any]:
    return {
        "name": of.name, "area": of.rule.area, "now": of.current, "value": of.value,
        "reason": of.reason, "formula": of.formula, "suggestion": of.suggested,
        "restart": of.parameter.restart, "risk": of.rule.risk, "source": of.rule.source,
    }  # fmt: skip


def _budget(of: Tuning) -> dict[str, Any] | None:
    if of.budget is None:
        return None
    return {
        "memory": of.budget.memory, "ceiling": of.budget.ceiling, "total": of.budget.total,
        "parts": [
            {"name": part.name, "bytes": part.size, "how": part.how} for part in of.budget.parts
        ],
    }  # fmt: skip


def answer_json(given: str) -> str:
    """`answer` with JSON texts in and out, as the page and its worker exchange them."""
    return json.dumps(answer(json.loads(given)))


def _value(name: str, text: str) -> Any:
    of = MACHINE.get(name)
    if of is None:
        raise BadValue(f"there is no input {name}", f"There are {', '.join(MACHINE)}.")
    if isinstance(of, Switch):
        return {"yes": True}.get(text, text)
    return of.parse(name, text)
