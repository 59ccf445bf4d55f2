"""What other distributions add: entry points, loaded when their name is used.

A distribution declares, for example, in its pyproject.toml:

    [project.entry-points."mrtuner.commands"]
    pods = "mrtuner_pods.cli:command"

The group ``mrtuner.commands`` holds commands (click); ``mrtuner.triggers`` holds what triggers a
failover for `mrtuner failover rehearse --trigger NAME:REST`, a function of REST and an
`aws.session.Account` that returns a `rehearsal.run.Trigger`; ``mrtuner.checks`` holds what
`mrtuner check --with NAME:REST` adds, a `check.catalogue.Addition`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import MissingPart

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS: Final = "mrtuner.commands"
TRIGGERS: Final = "mrtuner.triggers"
CHECKS: Final = "mrtuner.checks"
#: Group and name of what we publish separately: the distribution that brings it.
_DISTRIBUTIONS: Final[Mapping[tuple[str, str], str]] = {
    (COMMANDS, "image"): "mrtuner-image",
    (COMMANDS, "pods"): "mrtuner-pods",
    (COMMANDS, "rds"): "rdstune",
    (TRIGGERS, "rds"): "rdstune",
    (CHECKS, "pods"): "mrtuner-pods",
    (CHECKS, "rds"): "rdstune",
}


@cache
def installed(group: str) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {one.name: one for one in entry_points(group=group)}


def load(group: str, name: str) -> Any:
    """Return the object behind an entry point, or None for a name that nobody publishes.

    Raises MissingPart if the distribution that brings it is not installed.
    """
    if found := installed(group).get(name):
        return found.load()
    if distribution := _DISTRIBUTIONS.get((group, name)):
        raise MissingPart(
            f"not installed: {distribution}, which brings {name!r}",
            f"Run: pip install {distribution}.",
        )
    return None
