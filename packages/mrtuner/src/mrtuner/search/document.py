"""A search as JSON: ``mrtuner.search/1``."""

from __future__ import annotations

from typing import Annotated

from mrtuner.documents import Doc, Document, field
from mrtuner.search.model import (
    BindingEvidence,
    Earlier,
    Goal,
    Measured,
    Schedule,
    SearchedLoad,
    SearchedSetting,
    SearchResult,
    SettingLeftOut,
    Trial,
    Worth,
)


class SearchDocument(Document, tag="mrtuner.search/1"):
    """`search.json`, the record of `mrtuner search`, which `mrtuner search --json` also prints.

    The file is replaced after each trial. `mrtuner search --resume` goes on where it ends.
    """

    mrtuner: Annotated[str, Doc("version of MrTuner")]
    postgres: Annotated[str, Doc("version of the server")]
    started: Annotated[str, Doc("ISO 8601, UTC")]
    load: Annotated[SearchedLoad, Doc("what ran, and where")]
    machine: Annotated[
        dict[str, str | int | float | bool | list[str] | None],
        Doc("what was said about the machine, as in `mrtuner.tune`"),
    ]
    cpus: Annotated[int | None, Doc("CPUs of the machine; null: unknown")]
    memory: Annotated[int | None, Doc("bytes of its memory; null: unknown")]
    earlier: Annotated[list[Earlier], Doc("winners of earlier searches, which are tried first")]
    keep: Annotated[list[str], Doc("settings that were to stay as advised")]
    seed: Annotated[int, Doc("of all that is random")]
    schedule: Annotated[Schedule, Doc("how the budget is spent")]
    advice: Annotated[
        dict[str, str], Doc("the settings that it starts from; on a live server, those in force")
    ]
    baselines: Annotated[
        dict[str, dict[str, str]], Doc("other settings to compare with: initdb's, PgTune's")
    ]
    goal: Annotated[Goal, Doc("what is to be better")]
    busy: Annotated[str | None, Doc("what used the machine before the first run; null: nothing")]
    unknown: Annotated[list[str], Doc("what could not be read or counted")]
    calibration: Annotated[
        Measured | None, Doc("the advice against itself: the noise of this machine")
    ]
    evidence: Annotated[
        list[BindingEvidence], Doc("what holds the load back, seen under the advice")
    ]
    searched: Annotated[list[SearchedSetting], Doc("the settings that are searched")]
    left_out: Annotated[list[SettingLeftOut], Doc("those that are not, and why")]
    trials: Annotated[list[Trial], Doc("in the order in which they ran")]
    candidate: Annotated[int | None, Doc("number of the trial that was measured afresh")]
    confirmation: Annotated[Measured | None, Doc("that trial against the advice, in fresh pairs")]
    ablation: Annotated[list[Worth], Doc("what each of its settings is worth")]
    reduced: Annotated[
        Measured | None, Doc("without those that are worth less than 1 %, against the advice")
    ]
    result: Annotated[SearchResult | None, Doc("null until the search is finished")] = field(
        default=None
    )
