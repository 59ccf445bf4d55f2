"""The tuner page's answer for an instance of the store: what `mrtuner tune --history` advises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from mrtuner.documents import as_builtins
from mrtuner.errors import MrTunerError
from mrtuner.history.period import period
from mrtuner.history.reading import History
from mrtuner.history.recorded_server import recorded
from mrtuner.tuning import tune_recorded
from mrtuner.tuning.advice import Input
from mrtuner.tuning.document import tune_document
from mrtuner.tuning.gather import flags
from mrtuner.tuning.situation import Seen
from mrtuner.web.tuner import entered, told

#: How far back to search for peaks [s]: as long as sampled rows are kept.
_REMEMBERED: Final = 35 * 86_400.0


def recorded_answer(history: History, given: Mapping[str, str]) -> dict[str, Any]:
    """Return the advice for an instance, or ``{"error": …}`` with a message and a hint.

    What was entered takes precedence over what was recorded.

    Raises:
        UsageError: there is no such instance.
    """
    fields = {name: text for name, text in given.items() if name != "instance"}
    about = period(history, given["instance"] or None, since=_REMEMBERED)
    try:
        found = recorded(history, about)
        said = replace(flags(**entered(fields)), seen=Seen.RECORDED)
        if found.server is None and said.postgres is None:
            said = replace(said, postgres=found.major)
        tuning = tune_recorded(found.server, found.host, said)
    except MrTunerError as error:
        return {"error": {"message": error.message, "hint": error.hint}}
    answer = told(tuning)
    document = json.dumps(as_builtins(tune_document(tuning, None)), indent=2, ensure_ascii=False)
    return answer | {
        "instance": about.instance,
        "settings_known": found.server is not None,
        "notices": [*found.notices, *answer["notices"]],
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
