"""What is shared by the commands that send the last sample repeatedly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrtuner.cli.common.stopping import stop_event
from mrtuner.errors import MrTunerError

if TYPE_CHECKING:
    from mrtuner.history.export.latest import Figure

once_option = click.option("--once", is_flag=True, help="Send one message and exit.")


def push_until_stopped(
    directory: Path, name: str, message: Callable[[Iterable[Figure]], bytes],
    send: Callable[[bytes], None], *, every: float, once: bool, tell: Callable[[str], None],
) -> None:  # fmt: skip
    """Send the store's last sample every `every` seconds until a signal arrives, or once.

    Raises:
        MrTunerError: the only message was not delivered.
    """
    from mrtuner.history.export.outbox import Outbox
    from mrtuner.history.export.push import push

    outbox = Outbox(directory / "outbox" / name)
    with stop_event() as stop:
        if once:
            stop.set()
        push(directory, outbox, message, send, stop, every=every, tell=tell)
    if once and len(outbox):
        raise MrTunerError("the message was not delivered", "It is kept and sent next time.")
