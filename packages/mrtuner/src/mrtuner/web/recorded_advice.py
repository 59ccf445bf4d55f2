"""The tuner page's answer for an instance of the store: what `mrtuner tune --history` advises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from mrtuner.answers.advice import REMEMBERED, of_record
from mrtuner.documents import as_builtins
from mrtuner.errors import MrTunerError
from mrtuner.history.analysis.period import period
from mrtuner.history.reading import History
from mrtuner.tuning.advice import Input
from mrtuner.tuning.document import tune_document
from mrtuner.web.tuner import entered, shown_advice

if TYPE_CHECKING:
    from mrtuner.inputs import MachineInputs


def recorded_answer(history: History, given: Mapping[str, str]) -> dict[str, Any]:
    """Return the advice for an instance, or ``{"error": …}`` with a message and a hint.

    What was entered takes precedence over what was recorded.

    Raises:
        UsageError: there is no such instance.
    """
    fields = {name: text for name, text in given.items() if name != "instance"}
    about = period(history, given["instance"] or None, since=REMEMBERED)
    try:
        tuning = of_record(history, about, cast("MachineInputs", entered(fields)))
    except MrTunerError as error:
        return {"error": {"message": error.message, "hint": error.hint}}
    answer = shown_advice(tuning)
    document = json.dumps(as_builtins(tune_document(tuning, None)), indent=2, ensure_ascii=False)
    return answer | {
        "instance": about.instance,
        "settings_known": tuning.server is not None,
        "begin": about.begin.timestamp(),
        "end": about.end.timestamp(),
        "texts": answer["texts"] | {"json": f"{document}\n"},
        "known": [
            {"name": one.name, "value": one.value, "source": _source(one, fields)}
            for one in tuning.given
        ],
        "missing": [
            {"name": one.name, "why": one.why, "supply": one.supply} for one in tuning.missing
        ],
    }


def _source(of: Input, fields: Mapping[str, str]) -> str:
    """Return where an input came from; RDS told the version if none was entered."""
    if of.name == "pg" and of.source == "--pg" and not fields.get("postgres"):
        return "rds:DescribeDBInstances"
    return of.source
