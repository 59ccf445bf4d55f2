"""Processes of pods on this node: what kubectl says about pods, and the names of control groups.

The kubelet names a pod's control group after its uid, the container runtime that of a container
after its id: kubepods/burstable/pod4f0c…/8e1d… , or with systemd
kubepods-burstable-pod4f0c_….slice/cri-containerd-8e1d….scope. Only their ids are looked for.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mrtuner.errors import BadValue, MissingPart, MrTunerError, UsageError
from mrtuner.host.cgroup import parse_cgroup
from mrtuner.host.tree import Tree
from mrtuner.wording import enumerated
from mrtuner_pods.measure import processes

#: Shorter ids could be parts of other names.
_SHORTEST: Final = 12
_PATIENCE: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContainer:
    """A container of a pod."""

    pod: str
    name: str
    ident: str  # of the runtime, without its scheme


def asked(selector: str, namespace: str | None) -> str:
    """Return what ``kubectl get pods -l SELECTOR -o json`` writes.

    Raises MissingPart without kubectl, MrTunerError where it fails.
    """
    place = [] if namespace is None else ["--namespace", namespace]
    command = ["kubectl", "get", "pods", "--selector", selector, *place, "--output", "json"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except FileNotFoundError:
        raise MissingPart(
            "kubectl is not installed",
            "Run kubectl get pods -l SELECTOR -o json elsewhere, and give its output with --pods.",
        ) from None
    except subprocess.TimeoutExpired:
        raise MrTunerError(
            f"kubectl did not answer in {_PATIENCE:g} s", "Check that it reaches the cluster."
        ) from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise MrTunerError(f"kubectl failed: {said[-1]}", "Run it by hand to see why.")
    return done.stdout


def containers(text: str, where: str) -> tuple[PodContainer, ...]:
    """Return the containers of pods, as kubectl writes them as JSON: a list, or one pod.

    Raises BadValue where it is neither.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadValue(
            f"{where} is not JSON: {error}", "Write it with kubectl … -o json."
        ) from None
    items = found.get("items", [found]) if isinstance(found, Mapping) else ()
    pods = [one for one in items if isinstance(one, Mapping) and one.get("kind", "Pod") == "Pod"]
    if not pods:
        raise BadValue(f"{where} has no pods", "Check the selector and the namespace.")
    return tuple(one for pod in pods for one in _containers(pod))


def _containers(pod: Mapping[str, Any]) -> Iterator[PodContainer]:
    name = str(pod.get("metadata", {}).get("name", "?"))
    for status in pod.get("status", {}).get("containerStatuses", ()):
        ident = str(status.get("containerID") or "").rpartition("://")[2]
        if len(ident) >= _SHORTEST:
            yield PodContainer(pod=name, name=str(status.get("name", "?")), ident=ident)


def chosen(
    tree: Tree, known: Sequence[PodContainer], pod: str | None, container: str | None
) -> list[int]:
    """Return the processes of the only container that runs on this node, or of the one named.

    Each container has control groups of its own, so one is measured at a time.

    Raises UsageError where there is none, or where there are several.
    """
    wanted = [
        one for one in known if pod in {None, one.pod} and container in {None, one.name}
    ]  # fmt: skip
    here = {one: pids for one in wanted if (pids := _processes(tree, one))}
    if not here:
        raise UsageError(
            f"none of {enumerated(sorted({one.pod for one in wanted}))} runs on this node"
            if wanted
            else "there is no container of that name",
            "Run it as root on the node of the pod, in the host's process namespace.",
        )
    if len(here) > 1:
        names = enumerated(sorted(f"{one.pod}/{one.name}" for one in here))
        raise UsageError(
            f"{len(here)} containers run on this node: {names}",
            "Name one with --pod NAME, and --container NAME.",
        )
    return next(iter(here.values()))


def _processes(tree: Tree, container: PodContainer) -> list[int]:
    return [
        pid
        for pid in processes.every(tree)
        if any(
            container.ident in part
            for member in parse_cgroup(tree.peek(f"/proc/{pid}/cgroup") or "")
            for part in member.path.parts
        )
    ]
