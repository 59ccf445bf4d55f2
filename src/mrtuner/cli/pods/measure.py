"""`mrtuner pods measure`: what really holds an application server back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import click

from mrtuner.cli.common import options, terminal
from mrtuner.errors import BadValue, UsageError

if TYPE_CHECKING:
    from mrtuner.host.tree import Tree

#: Programs that are process 1 of a machine, not of a container.
_INIT: Final = ("systemd", "init", "launchd", "runit", "openrc-init")


@options.command("measure")
@click.argument("pids", type=click.IntRange(1), nargs=-1, metavar="[PID]...")
@click.option(
    "--name", metavar="REGEX", help="Measure processes whose command line matches, instead of PID."
)
@click.option(
    "--seconds", type=click.FloatRange(0.5, 3600), default=10.0, show_default=True,
    help="Time between the two readings.",
)  # fmt: skip
@options.json_option
def command(pids: tuple[int, ...], name: str | None, seconds: float, as_json: bool) -> None:
    """Find out what holds an application server back: why it uses no more CPU than it does.

    \b
    Examples:
      mrtuner pods measure                            in a container: process 1 and its children
      mrtuner pods measure 4711 --seconds 60
      mrtuner pods measure --name 'gunicorn: master'
      kubectl exec web-0 -- mrtuner pods measure      where MrTuner is in the image

    Run it while the server has its usual load. Counters are read twice: the CPU time of each thread
    and its wait for a CPU, quotas of its control group and of those above, the queue of connections
    that wait to be accepted. Nothing is changed. Below the answer is the number of CPUs that each
    runtime detects here, on which its defaults are based.

    A container does not show the control groups above its own: if they may matter, run it on the
    node. Sockets and memory of another user's processes can be read only by root.
    """
    from mrtuner.documents import as_builtins
    from mrtuner.host.tree import Tree
    from mrtuner.present.held_back import lines
    from mrtuner.sizing.measure import measure
    from mrtuner.sizing.measure.document import held_back_document

    tree = Tree()
    if not tree.is_there("/proc/self/stat"):
        raise UsageError("this system has no /proc", "Measure on Linux: in the container or node.")
    chosen = _chosen(tree, pids, name)
    terminal.print_note(f"reading the counters of {len(chosen)} for {seconds:g} s")
    with terminal.sigterm_as_interrupt():
        told = as_builtins(held_back_document(measure(tree, chosen, seconds)))
    terminal.answer(told, lines(told), as_json)


def _chosen(tree: Tree, pids: tuple[int, ...], name: str | None) -> list[int]:
    """The processes to measure: none that descends from another of them."""
    from mrtuner.host import processes

    if pids and name is not None:
        raise UsageError("give PID or --name, not both", "Leave out one of them.")
    if pids:
        return _topmost(tree, pids)
    if name is None:
        first = processes.name_of(tree, 1)
        if first in _INIT:
            raise UsageError(
                f"process 1 is {first}: this is no container", "Give a PID or --name REGEX."
            )
        return [1]
    try:
        found = processes.named(tree, name)
    except re.error as error:
        raise BadValue(f"--name {name!r} is no regular expression: {error}", None) from None
    if not found:
        raise UsageError(f"no process matches {name!r}", "List processes with ps -ef.")
    return _topmost(tree, found)


def _topmost(tree: Tree, pids: list[int] | tuple[int, ...]) -> list[int]:
    from mrtuner.host import processes

    below = {
        one for pid in pids for one in processes.family(tree, pid)[1:]
    }  # fmt: skip
    return [pid for pid in dict.fromkeys(pids) if pid not in below]
