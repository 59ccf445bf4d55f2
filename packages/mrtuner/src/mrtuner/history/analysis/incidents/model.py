"""Something that went wrong: what every search here yields."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from mrtuner.described import Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Something that went wrong."""

    kind: Annotated[
        str,
        Doc(
            "lock queue, connection storm, sessions refused, deadlocks, statement slower, "
            "checkpoints, ceiling, crash, event"
        ),
    ]
    begin: Annotated[datetime, Doc("UTC")]
    end: Annotated[datetime, Doc("UTC")]
    text: Annotated[str, Doc("the same in one sentence, without the time")]
    screen: Annotated[str, Doc("the screen of the viewer that shows it")]
    query_id: Annotated[int | None, Doc("of the statement that it is about; of several, null")] = (
        None
    )
