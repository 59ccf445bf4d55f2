"""Processes of a pod by its labels, and how long connections wait by the listening queue."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from command_line import run
from groups import real_group
from machine import needs
from mrtuner.errors import BadValue, MissingPart, MrTunerError, UsageError
from mrtuner.host.tree import Tree
from mrtuner_pods.measure import measure
from mrtuner_pods.measure.pods import asked, chosen, containers

linux = needs("/proc")
WEB, PROXY, OTHER = (letter * 64 for letter in "abc")


def a_pod(name: str, **idents: str) -> dict[str, Any]:
    """As in the API reference: PodStatus, containerStatuses, containerID."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "uid": "4f0c7d0e-0c2f-4a43-9d0b-2b5d6a7e8f90"},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": one, "containerID": f"containerd://{ident}"}
                for one, ident in idents.items()
            ],
        },
    }


def a_list(*pods: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": pods})


def a_node(root: Path, groups: dict[int, str]) -> Tree:
    for pid, group in groups.items():
        folder = root / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "cgroup").write_text(f"0::{group}\n")
    return Tree(root)


@pytest.mark.parametrize(
    "group",
    [
        f"/kubepods/burstable/pod4f0c7d0e-0c2f-4a43-9d0b-2b5d6a7e8f90/{WEB}",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod4f0c7d0e_0c2f.slice/"
        f"cri-containerd-{WEB}.scope",
        f"/kubepods.slice/kubepods-pod4f0c7d0e_0c2f.slice/crio-{WEB}.scope/init",
    ],
)
def test_processes_are_found_by_the_id_of_their_container(tmp_path: Path, group: str) -> None:
    """Drivers of the kubelet and runtimes name groups differently; the id is in each."""
    node = a_node(tmp_path, {10: group, 11: group, 12: f"/kubepods/pod1/{OTHER}", 13: "/init"})
    known = containers(a_list(a_pod("web-1", app=WEB)), "pods")
    assert sorted(chosen(node, known, None, None)) == [10, 11]


def test_of_several_containers_one_has_to_be_named(tmp_path: Path) -> None:
    node = a_node(tmp_path, {10: f"/kubepods/pod1/{WEB}", 20: f"/kubepods/pod1/{PROXY}"})
    known = containers(a_list(a_pod("web-1", app=WEB, proxy=PROXY), a_pod("web-2", app=OTHER)), "p")
    with pytest.raises(UsageError, match="2 containers run on this node: web-1/app and web-1/pro"):
        chosen(node, known, None, None)
    assert chosen(node, known, "web-1", "proxy") == [20]
    with pytest.raises(UsageError, match="none of web-2 runs on this node"):
        chosen(node, known, "web-2", None)
    with pytest.raises(UsageError, match="there is no container of that name"):
        chosen(node, known, None, "sidecar")


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "is not JSON"), ('{"items": []}', "has no pods"), ("[1]", "has no pods")],
)
def test_what_kubectl_did_not_write_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadValue, match=said):
        containers(text, "pods.json")


def kubectl(place: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program named kubectl first on the path."""
    program = place / "kubectl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/bin:/usr/bin")


def test_kubectl_is_asked_with_the_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl(tmp_path, monkeypatch, 'echo "$@"')
    said = asked("app=web", "shop").split()
    assert said == [
        "get",
        "pods",
        "--selector",
        "app=web",
        "--namespace",
        "shop",
        "--output",
        "json",
    ]
    kubectl(tmp_path, monkeypatch, "echo 'error: no cluster' >&2; exit 1")
    with pytest.raises(MrTunerError, match="kubectl failed: error: no cluster"):
        asked("app=web", None)


def test_a_node_without_kubectl_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPart, match="kubectl is not installed") as refused:
        asked("app=web", None)
    assert "--pods" in (refused.value.hint or "")


@linux
def test_the_command_measures_a_process_in_such_a_group(tmp_path: Path) -> None:
    """A real group of the kernel, with the name that a runtime would give it."""
    code = "import sys; sys.stdin.read()"
    with real_group("cpu") as parent:
        group = parent / WEB
        group.mkdir()
        try:
            with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as child:
                (group / "cgroup.procs").write_text(str(child.pid))
                file = tmp_path / "pods.json"
                file.write_text(a_list(a_pod("web-1", app=WEB)))
                done = run("pods", "measure", "--pods", file, "--seconds", "0.5", "--json")
                child.kill()
        finally:
            group.rmdir()
    assert done.exit_code == 0, done.output
    assert [one["pid"] for one in json.loads(done.stdout)["processes"]] == [child.pid]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--pod", "web-1"], "--pod needs --selector or --pods"),
        (["1", "--selector", "app=web"], "pods and processes are both given"),
    ],
)
def test_options_that_do_not_go_together_are_named(given: list[str], said: str) -> None:
    done = run("pods", "measure", *given)
    assert done.exit_code == 2
    assert said in done.output


@linux
def test_the_mean_wait_is_the_queue_over_the_rate() -> None:
    """By hand: three connections that nobody accepts, at 60 a second: 50 ms each."""
    with ExitStack() as stack:
        ours = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for _ in range(3):
            stack.enter_context(socket.create_connection(ours.getsockname()))
        seen = measure(Tree(), [os.getpid()], 0.3, rate=60.0)
        assert seen.accept_wait == pytest.approx(0.05)

        def connect_once(_: float) -> None:
            stack.enter_context(socket.create_connection(ours.getsockname()))

        counted = measure(Tree(), [os.getpid()], 0.3, sleep=connect_once)
    assert counted.waiting
    assert counted.opened is not None
    # Every look opened a connection; other programs may have opened more.
    assert counted.opened * counted.seconds >= len(counted.waiting) - 0.5
    assert counted.accept_wait is not None
