"""What rdstune's apply, undo and diff share: options, progress and messages."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from mrtuner.cli.common import change, options, terminal
from mrtuner.escape import printable

if TYPE_CHECKING:
    from mrtuner.aws.session import Account
    from mrtuner.change.journal import Journal
    from mrtuner.change.transaction import Observer, StepName
    from rdstune.live.apply import RdsOutcome, Reboot
    from rdstune.live.target import Target
    from rdstune.live.wait import Pace

Function = TypeVar("Function", bound=Callable[..., Any])

reboot_option = click.option(
    "--reboot",
    type=click.Choice(["never", "now"]),
    default="never",
    show_default=True,
    help="Whether to reboot what waits for it, now or never.",
)
workload_option = options.declared_option("workload", default="mixed")
connections_option = options.declared_option("connections")


def named(_context: click.Context, _option: click.Parameter, dsn: str | None) -> str | None:
    """Refuse an empty connection string: `--connect "$UNSET"` must not mean this machine."""
    if dsn is not None:
        from rdstune.live.identity import require_named

        require_named(dsn)
    return dsn


def connect_option(why: str, **more: Any) -> Callable[[Function], Function]:
    """The option --connect DSN, for a command about an instance to reach its server as well."""
    return click.option(
        "--connect", "dsn", metavar="DSN", callback=named,
        help=f"Connect to the instance's server with DSN, {why}.", **more,
    )  # fmt: skip


def attached_lately(target: Target) -> bool:
    """Whether the last change in the journal attached the target's group."""
    from mrtuner.change.journal import changes_with_steps

    done = [one for one, _ in changes_with_steps() or () if one.server == target.arn]
    group = done[-1].group if done else None
    return group is not None and group.attached_before != group.attached_after == target.group


compare_option = connect_option("to compare its settings; DSN must lead to the instance")
poll_option = options.time_option(
    "--poll", "Time between the first two polls of AWS; later ones are less frequent.", default="1s"
)


@contextmanager
def telling(poll: float) -> Iterator[tuple[Observer, Pace]]:
    """Yield where a change reports its steps, and what it waits for.

    Steps are lines on stderr; on a terminal, what is waited for is shown beside a spinner.
    """
    from rdstune.live.wait import USUAL

    pace = replace(USUAL, first=poll, most=poll * _LESS_FREQUENT)
    if not terminal.animated(sys.stderr):
        yield _step, replace(pace, tell=lambda state: terminal.print_note(f"    {state}"))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    with console.status("looking") as status:

        def step(taken: StepName) -> None:
            if not taken.done:
                console.print(Text(f"  {_short(taken)}"))
                status.update(Text(_short(taken)))

        yield step, replace(pace, tell=lambda state: status.update(Text(printable(state))))


_LESS_FREQUENT: Final = 15


def _step(taken: StepName) -> None:
    if not taken.done:
        terminal.print_note(f"  {_short(taken)}")


def _short(text: str) -> str:
    """Shorten a step, which may have twenty names; the journal has them all."""
    return printable(textwrap.shorten(text, terminal.WIDTH - 2, placeholder=" …"))


def prove(client: Any, instance: str, dsn: str | None, *, down: bool = True) -> Target:
    """Return the instance, after proving that the connection string, if given, leads to it.

    With `down`, no connection is required if the instance is not up: an interrupted change may
    have left it so. Clean that up first, then prove again without `down`.
    """
    from mrtuner.errors import ConnectError
    from rdstune.live import identity
    from rdstune.live.target import read_target

    target = read_target(client, instance)
    if dsn is not None:
        try:
            identity.require(dsn, target)
        except ConnectError:
            if not down or target.changeable:
                raise
    return target


def finish_interrupted(
    client: Any, instance: str, book: Journal, reboot: Reboot, poll: float
) -> RdsOutcome | None:
    """Finish or revert what an interrupted run left half-done, and report it."""
    from rdstune.live.apply import finish_or_revert_group

    with telling(poll) as (at, pace):
        outcome = finish_or_revert_group(client, instance, book, reboot=reboot, pace=pace, at=at)
    change.print_recovered(outcome)
    return outcome


def say(outcome: RdsOutcome) -> None:
    """Print the outcome to stdout, and what waits for a reboot to stderr."""
    if outcome.result == "nothing":
        terminal.print_line("nothing to change")
    elif outcome.result == "rebooted":
        terminal.print_line(
            f"{outcome.target} was rebooted and is in sync with group {outcome.group}"
        )
    else:
        terminal.print_line(f"{change.verified(outcome, 'parameter')} in group {outcome.group}")
    if outcome.waiting:
        terminal.print_note(f"waiting for a reboot: {', '.join(outcome.waiting)}")
        terminal.print_note(
            "reboot when convenient, or run again with --reboot now: AWS does not reboot for "
            "parameters in its maintenance window"
        )


def undo_command(instance: str, account: Account, reboot: Reboot, journal: Path | None) -> str:
    return change.command_line(
        ["rdstune", "undo", instance], journal,
        region=account.region, profile=account.profile,
        reboot=None if reboot == "never" else reboot,
    )  # fmt: skip
