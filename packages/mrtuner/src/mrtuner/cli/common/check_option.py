"""The exit code of every check: 0 only where all that could matter was judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli.common import exit_codes
from mrtuner.cli.common.terminal import print_note
from mrtuner.wording import first_few

if TYPE_CHECKING:
    from mrtuner.facts import Missing

Function = Callable[..., Any]
#: The number of things not judged that are named in one line.
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Check:
    """Whether a command is to check, and whether it may pass over what was not judged."""

    wanted: bool
    allow_unknown: bool

    def conclude(self, *, found: bool, unjudged: Sequence[Missing]) -> None:
        """End the command with 3 if something was found, or something was not judged.

        Call it last: the answer, which names what was not judged first, is already printed.
        """
        if not self.wanted:
            return
        passed_over = bool(unjudged) and not self.allow_unknown
        if passed_over and not found:
            names = first_few([one.name for one in unjudged], _NAMED)
            print_note(f"the check does not pass over {names}; --allow-unknown accepts that")
        if found or passed_over:
            click.get_current_context().exit(exit_codes.FOUND)


def checks(what: str) -> Callable[[Function], Function]:
    """--check, which makes a command exit with 3 if `what` is the case, and --allow-unknown.

    The command receives both as one `Check`.
    """
    asked = click.option(
        "--check", is_flag=True,
        help=f"Exit with status 3 if {what}, or if something was not judged.",
    )  # fmt: skip

    def decorate(function: Function) -> Function:
        return asked(_with_allow_unknown(function))

    return decorate


def always_checks(function: Function) -> Function:
    """--allow-unknown alone, for a command that is a check itself."""
    return _with_allow_unknown(function, always=True)


def _with_allow_unknown(function: Function, *, always: bool = False) -> Function:
    @wraps(function)
    def run(*args: Any, allow_unknown: bool, **given: Any) -> Any:
        wanted = always or given["check"]
        return function(*args, **{**given, "check": Check(wanted, allow_unknown)})

    option = click.option(
        "--allow-unknown", is_flag=True,
        help="Let the check pass although something was not judged.",
    )  # fmt: skip
    return option(run)
