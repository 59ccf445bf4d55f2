"""The settings of a client stack as JSON: ``mrtuner.failover.settings/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mrtuner.documents import Doc, Document
from mrtuner.failover.predict.document import PredictedCase, predicted_case

if TYPE_CHECKING:
    from mrtuner.failover.settings.advice import Settings


class SettingsDocument(Document, tag="mrtuner.failover.settings/1"):
    """Written by `mrtuner failover settings --json`."""

    stack: Annotated[str, Doc("the client stack that was asked for")]
    within: Annotated[float, Doc("the longest hang allowed, in seconds")]
    file: Annotated[str, Doc("where the snippet goes")]
    text: Annotated[str, Doc("the snippet")]
    sysctl: Annotated[
        str, Doc("a file for sysctl; empty where the client sets everything on its own sockets")
    ]
    verified: Annotated[str, Doc("the real client with which the snippet was tested, if any")]
    cases: Annotated[list[PredictedCase], Doc("how long each case lasts with these settings")]
    costs: Annotated[list[str], Doc("what they cost")]
    unbounded: Annotated[list[str], Doc("cases that stay open, and why")]


def settings_document(made: Settings) -> SettingsDocument:
    """Return the snippet, what it achieves and what it costs."""
    return SettingsDocument(
        stack=made.stack.name,
        within=made.bounds.within,
        file=made.stack.file,
        text=made.text,
        sysctl=made.sysctl,
        verified=made.stack.verified,
        cases=[predicted_case(case) for case in made.cases],
        costs=list(made.costs),
        unbounded=list(made.unbounded),
    )
