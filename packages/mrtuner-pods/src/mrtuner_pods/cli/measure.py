"""`mrtuner pods measure`: what really holds an application server back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli.common import options, terminal
from mrtuner.errors import BadValue, UsageError
from mrtuner.inputs import Rate

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
@click.option(
    "--rate", type=options.Declared("--rate", Rate(help="")), metavar="RATE",
    help="Connections that these processes accept, such as 40/s, to show how long one waits to be "
    "accepted.  [default: all that arrive in their network namespace]",
)  # fmt: skip
@click.option(
    "--selector", metavar="LABELS",
    help="Labels of a pod on this node, such as app=web; needs kubectl.",
)  # fmt: skip
@click.option("--namespace", metavar="NAME", help="Namespace of the pod.  [default: kubectl's]")
@options.path_option(
    "--pods", "FILE", "File with the output of kubectl get pods -o json, instead of calling it.",
    name="file",
)  # fmt: skip
@click.option("--pod", metavar="NAME", help="Name of the pod, if several run on this node.")
@click.option("--container", metavar="NAME", help="Container of the pod, if it has several.")
@options.json_option
def command(
    pids: tuple[int, ...], name: str | None, seconds: float, rate: float | None, as_json: bool,
    **pods: Any,
) -> None:  # fmt: skip
    """Find out what holds an application server back: why it does not use more CPU.

    \b
    Examples:
      mrtuner pods measure                            in a container: process 1 and its children
      mrtuner pods measure 4711 --seconds 60
      mrtuner pods measure --name 'gunicorn: master'
      mrtuner pods measure --selector app=web --namespace shop      on the pod's node, as root
      mrtuner pods measure 4711 --rate 40/s           also the wait to be accepted
      kubectl exec web-0 -- mrtuner pods measure      if MrTuner is in the image

    Run it while the server has its usual load. Counters are read twice: the CPU time of each thread
    and its wait for a CPU, quotas of its control group and its parents, the queue of connections
    that wait to be accepted. Nothing is changed. Below the answer is the number of CPUs that each
    runtime detects here, on which its defaults are based.

    A container does not show the control groups above its own: if they may matter, run it on the
    node. Sockets and memory of another user's processes can be read only by root.
    """
    from mrtuner.host.tree import Tree
    from mrtuner_pods.measure import measure
    from mrtuner_pods.measure.document import held_back_document
    from mrtuner_pods.measure.text import lines

    tree = Tree()
    if not tree.is_there("/proc/self/stat"):
        raise UsageError("this system has no /proc", "Measure on Linux: in the container or node.")
    chosen = _chosen(tree, pids, name, pods)
    terminal.print_note(f"reading the counters of {len(chosen)} for {seconds:g} s")
    with terminal.sigterm_as_interrupt():
        told = held_back_document(measure(tree, chosen, seconds, rate=rate))
    terminal.answer(told, lines(told), as_json)


def _chosen(tree: Tree, pids: tuple[int, ...], name: str | None, pods: Any) -> list[int]:
    """The processes to measure, without those that descend from another one."""
    from mrtuner_pods.measure import processes
    from mrtuner_pods.measure.reading import require

    if pids and name is not None:
        raise UsageError("give PID or --name, not both", "Leave out one of them.")
    if pods["selector"] is not None or pods["file"] is not None:
        if pids or name is not None:
            raise UsageError("pods and processes are both given", "Leave out PID and --name.")
        return _topmost(tree, _of_pods(tree, pods))
    for option in ("pod", "container", "namespace"):
        if pods[option] is not None:
            raise UsageError(f"--{option} needs --selector or --pods", "Give one of them.")
    if pids:
        return _topmost(tree, [require(tree, pid) for pid in pids])
    if name is None:
        first = processes.name_of(tree, 1)
        if first in _INIT:
            raise UsageError(
                f"process 1 is {first}: this is not a container", "Give a PID or --name REGEX."
            )
        return [1]
    try:
        found = processes.named(tree, name)
    except re.error as error:
        raise BadValue(f"--name {name!r} is not a regular expression: {error}", None) from None
    if not found:
        raise UsageError(f"no process matches {name!r}", "List processes with ps -ef.")
    return _topmost(tree, found)


def _of_pods(tree: Tree, pods: Any) -> list[int]:
    from mrtuner.files import read_file
    from mrtuner_pods.measure.pods import asked, chosen, containers

    if pods["file"] is None:
        text, where = asked(pods["selector"], pods["namespace"]), "what kubectl wrote"
    elif pods["selector"] is not None:
        raise UsageError("--selector and --pods are both given", "Leave out one of them.")
    else:
        text, where = read_file(pods["file"]), str(pods["file"])
    return chosen(tree, containers(text, where), pods["pod"], pods["container"])


def _topmost(tree: Tree, pids: list[int] | tuple[int, ...]) -> list[int]:
    from mrtuner_pods.measure import processes

    below = {
        one for pid in pids for one in processes.family(tree, pid)[1:]
    }  # fmt: skip
    return [pid for pid in dict.fromkeys(pids) if pid not in below]
