"""`rdstune undo`: put back exactly what the last apply changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from mrtuner.cli.common import options, targets, terminal
from mrtuner.cli.common.aws_options import account_options
from mrtuner.cli.common.change import way_back
from mrtuner.wording import plural
from rdstune.cli import change

if TYPE_CHECKING:
    from mrtuner.aws.session import Account
    from mrtuner.change.record import Change
    from rdstune.live.apply import Reboot


@options.command("undo")
@click.argument("instance", type=targets.InstanceArgument())
@change.reboot_option
@click.option("--force", is_flag=True, help="Overwrite parameters that were changed since.")
@change.poll_option
@account_options
@options.change_options
def command(
    instance: str,
    reboot: Reboot,
    force: bool,
    poll: float,
    account: Account,
    asked: options.Asked,
) -> None:
    """Undo the last change of an instance's parameter group.

    \b
    Examples:
      rdstune undo my-instance
      rdstune undo my-instance --reboot now
      rdstune undo my-instance --force --yes

    Values that users had set are restored, other values are reset, the previous group is attached
    again, and a group that we created is deleted. An interrupted change is finished or reverted
    first; if it is reverted, there is nothing more to undo. rdstune diff --connect shows what the
    server runs afterwards.
    """
    from mrtuner.aws import session
    from rdstune.live.target import read_target
    from rdstune.live.undo import last, undo

    client = session.client("rds", account)
    with terminal.sigterm_as_interrupt(), asked.book() as book:
        recovered = change.finish_interrupted(client, instance, book, reboot, poll)
        if recovered is not None and recovered.change_is_undone:
            outcome = recovered
        else:
            done = last(book, read_target(client, instance))
            for line in way_back(done, "not set", [*_replaced(done)]):
                terminal.print_note(line)
            what = f"Restore {plural(len(done.entries), 'parameter')}"
            asked.confirm(f"{what}{' and reboot' if reboot == 'now' else ''}?")
            with change.telling(poll) as (at, pace):
                outcome = undo(
                    client, instance, book,
                    reboot=reboot, force=force, only=done.id, pace=pace, at=at,
                )  # fmt: skip
    if asked.as_json:
        from rdstune.live.document import undo_document

        terminal.document(undo_document(recovered, outcome))
    else:
        change.say(outcome)


def _replaced(done: Change) -> Iterator[tuple[str, str]]:
    """The group that the instance gets back, if the change attached another."""
    group = done.group
    if group and group.attached_before != group.attached_after:
        gone = ", and deleted" if group.creates else ""
        yield group.name, f"replaced by {group.attached_before} again{gone}"
