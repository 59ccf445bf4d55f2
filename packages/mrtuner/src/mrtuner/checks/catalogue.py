"""The checks, and how to write one.

    @check(
        "invalid-index",
        judged="pg_index.indisvalid is false, and no session builds it or all of its table",
        source="documentation: CREATE INDEX, Building Indexes Concurrently",
        remedy="Build it again with REINDEX INDEX CONCURRENTLY.",
        needs=("indexes",),
    )
    def invalid_indexes(state: State) -> Iterator[Finding]:
        "An index that no query uses, although every write maintains it."

The docstring says what it means. A check yields what it found and nothing if all is well. `needs`
names what it looks at: a part of `State` that could not be read leaves the check *not judged*. A
check that finds out by itself that it cannot judge raises `CannotJudge`. What needs a history, or
an `Addition` of another distribution, is looked for only where one is given. With `of_primary` it
is skipped on a standby, which does not count what it looks at, or refuses the remedy.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mrtuner.errors import BadValue
from mrtuner.extensions import CHECKS, installed, load
from mrtuner.facts import Missing
from mrtuner.findings import Finding

if TYPE_CHECKING:
    from mrtuner.aws.session import Account
    from mrtuner.checks.state import Added
    from mrtuner.inputs import MachineInputs
    from mrtuner.postgres.model import Platform

#: Of a `State`; of what is `Added` alone, for a check that needs nothing of the server.
Judge = Callable[[Any], Iterator[Finding]]
Part = TypeVar("Part")


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
    remedy: str  # in general; a finding has its own
    needs: tuple[str, ...]
    of_primary: bool
    judge: Judge = field(repr=False)

    @property
    def meaning(self) -> str:
        return " ".join((self.judge.__doc__ or "").split())

    @property
    def alone(self) -> bool:
        """Whether it needs nothing of the server itself."""
        return bool(self.needs) and set(self.needs) <= installed(CHECKS).keys()


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Where a target that is no connection string runs, and what is known of its machine."""

    dsn: str | None  # None: it has no address yet
    machine: MachineInputs
    instead_of: frozenset[str]  # checks whose question the addition's own checks answer
    platform: Platform | None = None  # who runs it, where SQL need not be asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What another distribution adds: the entry point ``NAME`` of the group ``mrtuner.checks``.

    Its module registers checks that need NAME. `read` returns what they look at (`added`) for REST
    of `--with NAME:REST`, or raises what cannot be asked at all. With `locate`, NAME:REST is a
    target by itself.
    """

    read: Callable[[str, Account], Any]
    locate: Callable[[Any], Located] | None = None  # of what was read


#: The part of the state that only a history gives.
HISTORY: Final = "history"
_CHECKS: Final[dict[str, Check]] = {}


def check(
    name: str, *, judged: str, source: str, remedy: str, needs: tuple[str, ...] = (),
    of_primary: bool = False,
) -> Callable[[Judge], Judge]:  # fmt: skip
    """Register the function below as the check `name`."""

    def register(judge: Judge) -> Judge:
        _CHECKS[name] = Check(
            id=name, area=judge.__module__.rpartition(".")[2], source=source, remedy=remedy,
            judged=f"{judged}; skipped on a standby" if of_primary else judged,
            needs=needs, of_primary=of_primary, judge=judge,
        )  # fmt: skip
        return judge

    return register


def checks() -> dict[str, Check]:
    """Return every check by its id, area by area; also those of installed distributions."""
    from mrtuner.checks import areas

    for module in pkgutil.iter_modules(areas.__path__):
        import_module(f"{areas.__name__}.{module.name}")
    for name in installed(CHECKS):
        load(CHECKS, name)
    return dict(sorted(_CHECKS.items(), key=lambda item: item[1].area))


def known(names: frozenset[str]) -> frozenset[str]:
    """Return the names; BadValue for one that is no check's."""
    for name in sorted(names - checks().keys()):
        raise BadValue(f"there is no check {name!r}", "mrtuner explain lists the checks.")
    return names


def known_part(state: Added, name: str, part: Part | None) -> Part:
    """Return a part of the state; CannotJudge, with the reason, where it could not be read."""
    if part is None:
        missing = state.missing[name]
        raise CannotJudge(missing.why, missing.supply)
    return part


def added(state: Added, name: str) -> Any:
    """Return what an addition read."""
    return known_part(state, name, state.added.get(name))
