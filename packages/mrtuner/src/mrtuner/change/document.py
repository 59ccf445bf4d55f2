"""A planned change of settings, and what became of a change, as parts of JSON documents."""

from __future__ import annotations

from typing import Annotated

from mrtuner.change.record import Result
from mrtuner.change.settings.plan import PendingSetting
from mrtuner.documents import Doc, Struct


class PlannedSetting(Struct):
    """A setting that is written."""

    name: Annotated[str, Doc("the parameter")]
    before: Annotated[str, Doc("the value in force before")]
    value: Annotated[str, Doc("the value to write")]
    restart: Annotated[bool, Doc("whether it takes effect only after a restart")]
    notes: Annotated[list[str], Doc("where it will still not be in force")]


class SettingNotWritten(Struct):
    """A setting that is not written."""

    name: Annotated[str, Doc("the parameter")]
    value: Annotated[str, Doc("the value that was wanted")]
    why: Annotated[str, Doc("the reason")]


class ChangePlan(Struct, kw_only=True):
    """What a change would write."""

    steps: Annotated[list[PlannedSetting], Doc("what is written, in this order")]
    left_alone: Annotated[list[SettingNotWritten], Doc("what is not written, and why")]
    refused: Annotated[
        list[SettingNotWritten], Doc("what would be unsafe; if there is any, nothing is written")
    ]
    pending: Annotated[
        list[PendingSetting], Doc("changes made earlier, by anyone, for the next restart")
    ]
    reloaded: Annotated[
        list[PendingSetting], Doc("changes of others in the files, for the next reload")
    ] = []  # noqa: RUF012 - msgspec copies it
    unchecked: Annotated[list[str], Doc("what could not be checked about the next start")] = []  # noqa: RUF012 - msgspec copies it
    elsewhere: Annotated[
        str | None, Doc("how settings are changed on this server, if MrTuner cannot")
    ]


class ChangeOutcome(Struct):
    """What became of a change."""

    result: Annotated[
        Result,
        Doc("`finished` and `reverted` refer to an interrupted change; only RDS has `rebooted`"),
    ]
    change: Annotated[int | None, Doc("its number in the journal")]
    changed: Annotated[list[str], Doc("names of what was changed")]
    waiting: Annotated[list[str], Doc("names that wait for a restart")]
    left: Annotated[
        list[str],
        Doc(
            "names not put back, because someone else has changed them since; empty for "
            "settings of a server, which are refused instead"
        ),
    ]
