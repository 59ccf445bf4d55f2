"""What `mrtuner apply --roles` and `mrtuner undo --roles` do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mrtuner.change.roles import RoleSettings
from mrtuner.cli.common.catalog_change import CatalogChange
from mrtuner.errors import MissingPart
from mrtuner.escape import damaged

if TYPE_CHECKING:
    from mrtuner.change.catalog_transaction import Wanted
    from mrtuner.change.record import Outcome, ParameterChange
    from mrtuner.cli.common.document import ApplyDocument, UndoDocument


def planned(dsn: str, machine: Mapping[str, Any]) -> Wanted:
    """Return the work_mem that roles are to have, and why, by ``role work_mem``.

    MissingPart where it is not known what they spill.
    """
    from mrtuner.answers import tune

    tuning = tune(dsn, **machine)
    counted = tuning.server is not None and "pg_stat_statements" in tuning.server.extensions
    unread = [one for one in tuning.missing if one.name == "role_spills"]
    if unread or not counted:
        raise MissingPart(
            "what roles spill is not known: "
            + (unread[0].why if unread else "pg_stat_statements is not installed here"),
            unread[0].supply if unread else
            "CREATE EXTENSION pg_stat_statements in this database, once it is preloaded.",
        )  # fmt: skip
    return {
        f"{one.role} work_mem": (one.value, f"it {one.spilt}; {one.gain}")
        for one in tuning.roles
        if not damaged(one.role)  # another role may be the one that is meant
    }


def _applied(
    recovered: Outcome | None,
    entries: Sequence[ParameterChange],
    outcome: Outcome,
    undo: str | None,
) -> ApplyDocument:
    from mrtuner.change.document import ChangeOutcome, ChangePlan, PlannedSetting
    from mrtuner.cli.common.document import ApplyDocument
    from mrtuner.documents import convert

    steps = [
        PlannedSetting(
            name=one.name, before=one.before or "", value=one.after or "", restart=False,
            notes=["in force in the role's new sessions"],
        )
        for one in entries
    ]  # fmt: skip
    return ApplyDocument(
        recovered=convert(recovered, ChangeOutcome) if recovered else None,
        plan=ChangePlan(steps=steps, left_alone=[], refused=[], pending=[], elsewhere=None),
        outcome=convert(outcome, ChangeOutcome),
        undo=undo,
    )


def _undone(
    recovered: Outcome | None, _: Sequence[ParameterChange], outcome: Outcome, __: str | None
) -> UndoDocument:
    from mrtuner.cli.common.document import undo_document

    return undo_document(recovered, outcome, ())


CHANGE: Final = CatalogChange(
    kind=RoleSettings,
    nouns=("setting", "role"),
    undo=("mrtuner", "undo", "DSN", "--roles"),
    applied=_applied,
    undone=_undone,
)
