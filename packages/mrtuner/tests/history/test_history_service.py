"""The examples that run `mrtuner record` as a service: systemd, a container, Kubernetes."""

from __future__ import annotations

import configparser
import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import NewCluster

from machine import needs
from mrtuner.errors import UsageError
from mrtuner.history.fleet_file import read_fleet
from mrtuner.history.store.status import status
from mrtuner.postgres.server_user import hand_over, scratch_directory, server_user

ROOT = Path(__file__).parents[4]
EXAMPLES = ROOT / "examples" / "record"
SERVICE = EXAMPLES / "mrtuner-record.service"
PROGRAM = "/opt/mrtuner/bin/mrtuner"
ARGUMENTS = ["record", "--config", "/etc/mrtuner/fleet.toml", "--dir", "/var/lib/mrtuner"]


@needs("systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    def verified(program: str) -> str:
        path = tmp_path / "mrtuner-record.service"
        path.write_text(SERVICE.read_text().replace(PROGRAM, program))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", path],
                              capture_output=True, text=True, check=False)  # fmt: skip
        return "" if done.returncode == 0 else done.stderr or "refused"

    installed = str(Path(sys.executable).with_name("mrtuner"))
    found = verified(installed)
    if "Failed to initialize manager" in found:
        pytest.skip(f"systemd-analyze does not work here: {found}")
    assert found == ""
    assert "not executable" in verified(f"{installed}-not-there")


def test_its_command_runs_as_its_user_until_it_is_stopped(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18)
    parser = configparser.RawConfigParser(strict=False)
    parser.read(SERVICE)
    program, *arguments = shlex.split(parser["Service"]["execstart"])
    assert [program, *arguments] == [PROGRAM, *ARGUMENTS]
    user = server_user() if others_may_run(Path(sys.executable)) else None
    directory = scratch_directory("mrtuner-service-")
    (directory / "fleet.toml").write_text(f'[instances]\nshop = "{cluster.dsn()}"\n')
    hand_over(directory, user)
    places = {"/etc/mrtuner/fleet.toml": str(directory / "fleet.toml"),
              "/var/lib/mrtuner": str(directory / "history")}  # fmt: skip
    installed = Path(sys.executable).with_name("mrtuner")
    command = [installed, *(places.get(one, one) for one in arguments)]
    who = {"user": user.uid, "group": user.gid, "extra_groups": ()} if user else {}
    environment = {**os.environ, "HOME": str(directory)}
    try:
        with subprocess.Popen(command, cwd="/", env=environment, **who) as process:  # type: ignore[call-overload]
            end = time.monotonic() + 120
            while not recorded(directory / "history"):
                assert process.poll() is None
                assert time.monotonic() < end, "nothing was recorded for two minutes"
                time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        assert recorded(directory / "history")
        assert not status(directory / "history", time.time()).recording
    finally:
        shutil.rmtree(directory)


def others_may_run(program: Path) -> bool:
    """Whether every user may enter the directories of a program and of what it links to."""
    above = {*program.parents, *program.resolve().parents}
    return all(one.stat().st_mode & stat.S_IXOTH for one in above)


def recorded(directory: Path) -> bool:
    try:
        found = status(directory, time.time())
    except UsageError:  # no store yet
        return False
    return any(one.source == "sessions" and one.last for one in found.sources)


def test_a_container_keeps_its_history_in_its_volume() -> None:
    text = (EXAMPLES / "Containerfile").read_text()
    lines = dict(line.split(" ", 1) for line in text.splitlines() if line[:1].isupper())
    assert json.loads(lines["ENTRYPOINT"]) == ["mrtuner", *ARGUMENTS]
    assert json.loads(lines["VOLUME"]) == ["/var/lib/mrtuner"]
    assert json.loads(lines["HEALTHCHECK"].split("CMD ")[1])[-1] == "/var/lib/mrtuner"


def test_a_pod_finds_its_files_where_its_arguments_say() -> None:
    """test_render_operators.py checks the manifest against its schemas."""
    documents = yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text())
    found: dict[str, Any] = {one["kind"]: one for one in documents}
    template = found["StatefulSet"]["spec"]["template"]
    pod = template["spec"]
    (container,) = pod["containers"]
    assert [*container["command"], *container["args"]] == ["mrtuner", *ARGUMENTS]
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    assert set(mounts) == {"/var/lib/mrtuner", "/tmp", "/etc/mrtuner/fleet.toml"}
    claims = found["StatefulSet"]["spec"]["volumeClaimTemplates"]
    names = {one["name"] for one in pod["volumes"]} | {one["metadata"]["name"] for one in claims}
    assert {one["name"] for one in mounts.values()} == names
    assert mounts["/etc/mrtuner/fleet.toml"]["subPath"] in found["ConfigMap"]["data"]
    assert found["Service"]["spec"]["selector"] == template["metadata"]["labels"]


def test_the_files_of_the_examples_name_servers(tmp_path: Path) -> None:
    documents = yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text())
    (inside,) = (one["data"]["fleet.toml"] for one in documents if one["kind"] == "ConfigMap")
    (tmp_path / "fleet.toml").write_text(inside)
    for place in (EXAMPLES, tmp_path):
        assert [one.name for one in read_fleet(place / "fleet.toml").instances] == ["shop"]


def test_the_page_shows_the_files() -> None:
    page = (ROOT / "docs/how-to/record-history.md").read_text(encoding="utf-8")
    for name in ("fleet.toml", "mrtuner-record.service"):
        assert (EXAMPLES / name).read_text(encoding="utf-8") in page
