"""The checks, and how to write one.

    @check(
        "invalid-index",
        judged="pg_index.indisvalid is false, and no session builds it",
        source="documentation: CREATE INDEX, Building Indexes Concurrently",
        needs=("indexes",),
    )
    def invalid_indexes(state: State) -> Iterator[Finding]:
        "An index that no query uses, although every write maintains it."

The docstring says what it means. A check yields what it found and nothing if all is well. `needs`
names what it looks at: a part of `State` that could not be read leaves the check *not judged*. A
check that finds out by itself that it cannot judge raises `CannotJudge`. What needs a history is
looked for only where one is given.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Final

from mrtuner.errors import BadValue
from mrtuner.facts import Missing
from mrtuner.findings import Finding

if TYPE_CHECKING:
    from mrtuner.check.state import State

Judge = Callable[["State"], Iterator[Finding]]


class CannotJudge(Exception):
    """Raised by a check that lacks something besides what it `needs`."""

    def __init__(self, why: str, hint: str | None = None) -> None:
        super().__init__(why)
        self.missing = Missing("", why, hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One trouble that is looked for."""

    id: str
    area: str
    judged: str  # by what, with the threshold
    source: str  # of the threshold
    needs: tuple[str, ...]
    judge: Judge = field(repr=False)

    @property
    def meaning(self) -> str:
        return " ".join((self.judge.__doc__ or "").split())


#: The part of the state that only a history gives.
HISTORY: Final = "history"
_CHECKS: Final[dict[str, Check]] = {}


def check(
    name: str, *, judged: str, source: str, needs: tuple[str, ...] = ()
) -> Callable[[Judge], Judge]:
    """Register the function below as the check `name`."""

    def register(judge: Judge) -> Judge:
        _CHECKS[name] = Check(
            id=name, area=judge.__module__.rpartition(".")[2], judged=judged, source=source,
            needs=needs, judge=judge,
        )  # fmt: skip
        return judge

    return register


def checks() -> dict[str, Check]:
    """Return every check by its id, area by area."""
    from mrtuner.check import areas

    for module in pkgutil.iter_modules(areas.__path__):
        import_module(f"{areas.__name__}.{module.name}")
    return dict(sorted(_CHECKS.items(), key=lambda item: item[1].area))


def known(names: frozenset[str]) -> frozenset[str]:
    """Return the names; BadValue for one that is no check's."""
    for name in sorted(names - checks().keys()):
        raise BadValue(f"there is no check {name!r}", "mrtuner explain lists the checks.")
    return names
