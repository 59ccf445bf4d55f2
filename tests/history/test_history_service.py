"""The services that `mrtuner record --unit` writes for systemd, containers and Kubernetes."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import NewCluster
from machine import needs
from mrtuner import __version__
from mrtuner.errors import BadValue, UsageError
from mrtuner.history.service import written
from mrtuner.history.size import status
from mrtuner.image.advice.advise import advise
from mrtuner.postgres.server_user import hand_over, scratch_directory, server_user

DSN = "postgresql://monitor@db/app"
#: Every character that has a special meaning for systemd, a shell or Kubernetes.
ODD = """host=db dbname='it\\\\'s "100%" $HOME ${HOME} $(HOME) ;'"""


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.toml"
    path.write_text('[instances]\nshop = "host=db dbname=shop"\n')
    return path


@pytest.fixture
def metrics(tmp_path: Path) -> Path:
    directory = tmp_path / "metrics"
    directory.mkdir()
    (directory / "jobs.sql").write_text(
        '/*\nhelp = "Jobs"\ninterval = "1min"\n[gauges]\nwaiting = { help = "jobs" }\n*/\n'
        "SELECT 1 AS waiting\n"
    )
    return directory


# systemd


def unit(*targets: str, directory: Path | None = None) -> dict[str, str]:
    """The settings in the section Service of a unit."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(written("systemd", targets, directory, None))
    return dict(parser["Service"])


@needs("systemd-analyze")
@pytest.mark.parametrize("directory", [None, Path("/srv/my history 100%")])
def test_systemd_accepts_the_unit(tmp_path: Path, directory: Path | None) -> None:
    def verified(text: str) -> str:
        path = tmp_path / "mrtuner-record.service"
        path.write_text(text)
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", path],
                              capture_output=True, text=True, check=False)  # fmt: skip
        return "" if done.returncode == 0 else done.stderr or "refused"

    text = written("systemd", [DSN, ODD], directory, None)
    found = verified(text)
    if "Failed to initialize manager" in found:
        pytest.skip(f"systemd-analyze does not work here: {found}")
    assert found == ""
    program = str(Path(sys.executable).with_name("mrtuner"))
    assert "not executable" in verified(text.replace(program, f"{program}-not-there"))


def test_words_of_the_command_mean_themselves() -> None:
    """By hand, after systemd.service(5): %% and $$ are one; in quotes \\\\ and \\" are escapes."""
    command = unit(ODD)["ExecStart"]
    assert '"host=db dbname=\'it\\\\\\\\\'s \\"100%%\\" $$HOME $${HOME} $$(HOME) ;\'"' in command


def test_a_history_below_var_lib_is_made_by_systemd() -> None:
    assert unit(DSN)["StateDirectory"] == "mrtuner"
    assert unit(DSN, directory=Path("/var/lib/shop"))["StateDirectory"] == "shop"


def test_a_history_elsewhere_is_writable() -> None:
    """ProtectSystem=strict leaves everything else read-only."""
    text = written("systemd", [DSN], Path("/srv/shop"), None)
    assert "ReadWritePaths=/srv/shop\n" in text
    assert "StateDirectory" not in text
    assert "install --directory --owner mrtuner --mode 750 /srv/shop" in text


def test_a_relative_directory_is_that_of_whoever_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"--dir {tmp_path}/here" in unit(DSN, directory=Path("here"))["ExecStart"]


def test_a_program_that_the_services_user_cannot_run_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "home"
    closed.mkdir(mode=0o700)
    (closed / "mrtuner").touch()
    monkeypatch.setattr(sys, "executable", str(closed / "python"))
    text = written("systemd", [DSN], None, None)
    # A directory above may be closed too, and is then the one that is named.
    assert re.search(rf"# The user mrtuner may not enter ({'|'.join(map(re.escape, _up(closed)))})",
                     text)  # fmt: skip


def _up(path: Path) -> list[str]:
    return [str(path), *map(str, path.parents)]


def test_a_command_elsewhere_than_its_interpreter_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pip install --user leaves it."""
    program = tmp_path / "mrtuner"
    program.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3-of-the-system")
    monkeypatch.setattr(shutil, "which", {"mrtuner": str(program)}.get)
    assert unit(DSN)["ExecStart"].startswith(f"{program} record ")


def test_its_command_runs_as_its_user_until_it_is_stopped(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18)
    text = written("systemd", [cluster.dsn()], None, None)
    user = None if "may not enter" in text else server_user()
    directory = scratch_directory("mrtuner-service-")
    hand_over(directory, user)
    command = shlex.split(unit(cluster.dsn(), directory=directory)["ExecStart"])
    who = {"user": user.uid, "group": user.gid, "extra_groups": ()} if user else {}
    environment = {**os.environ, "HOME": str(directory)}
    try:
        with subprocess.Popen(command, cwd="/", env=environment, **who) as process:  # type: ignore[call-overload]
            end = time.monotonic() + 120
            while not _recorded(directory):
                assert process.poll() is None
                assert time.monotonic() < end, "nothing was recorded for two minutes"
                time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        assert _recorded(directory)
        assert not status(directory, time.time()).recording
    finally:
        shutil.rmtree(directory)


def _recorded(directory: Path) -> bool:
    try:
        found = status(directory, time.time())
    except UsageError:  # no store yet
        return False
    return any(one.source == "sessions" and one.last for one in found.sources)


# Containers


def test_a_container_keeps_its_history_in_its_volume(fleet: Path, metrics: Path) -> None:
    text = written("container", [DSN], Path("/srv/history"), fleet, metrics)
    lines = dict(line.split(" ", 1) for line in text.splitlines() if line[:1].isupper())
    arguments = json.loads(lines["ENTRYPOINT"])
    assert arguments[arguments.index("--dir") + 1] == "/srv/history"
    assert json.loads(lines["VOLUME"]) == ["/srv/history"]
    assert json.loads(lines["HEALTHCHECK"].split("CMD ")[1])[-1] == "/srv/history"
    copied = [json.loads(line[5:]) for line in text.splitlines() if line.startswith('COPY ["')]
    assert copied == [
        ["fleet.toml", arguments[arguments.index("--config") + 1]],
        ["metrics", arguments[arguments.index("--metrics") + 1]],
    ]


def test_a_container_installs_the_wheel_that_make_dist_writes() -> None:
    assert f"mrtuner-{__version__}-py3-none-any.whl[history]'" in written(
        "container", [DSN], None, None
    )
    assert ".whl[history,rds]'" in written("container", ["rds:shop"], None, None)


def test_a_container_installs_what_the_wheel_requires_before_it(tmp_path: Path) -> None:
    """A new wheel then installs nothing else again: `mrtuner image advise` does not complain."""
    (tmp_path / "Containerfile").write_text(written("container", ["rds:shop"], None, None))
    with zipfile.ZipFile(tmp_path / f"mrtuner-{__version__}-py3-none-any.whl", "w") as wheel:
        told = metadata.distribution("mrtuner").read_text("METADATA")
        assert told is not None
        wheel.writestr(f"mrtuner-{__version__}.dist-info/METADATA", told)
    recipe = (tmp_path / "Containerfile").read_text()
    assert "duckdb>=1.5" in recipe
    assert "boto3>=1.35" in recipe
    assert "pyspark" not in recipe
    assert "dependencies-first" not in {one.rule for one in advise(tmp_path).advice}
    (tmp_path / "Containerfile").write_text(
        "".join(row for row in recipe.splitlines(keepends=True) if "duckdb" not in row)
    )
    (one,) = [one for one in advise(tmp_path).advice if one.rule == "dependencies-first"]
    added = [row[1:] for row in one.patch.splitlines() if row.startswith("+RUN")]
    assert [row for row in recipe.splitlines() if "duckdb" in row] == added


# Kubernetes. tests/formats/test_render_operators.py checks the manifest against its schemas.


def manifest(*arguments: Any) -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all(written("kubernetes", *arguments))}


def test_a_pod_finds_its_files_where_its_arguments_say(fleet: Path, metrics: Path) -> None:
    found = manifest([DSN], None, fleet, metrics)
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    config, directory, queries = (
        container["args"][container["args"].index(option) + 1]
        for option in ("--config", "--dir", "--metrics")
    )
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    assert set(mounts) == {directory, "/tmp", config, f"{queries}/jobs.sql"}
    names = {one["name"] for one in pod["volumes"]}
    names |= {
        one["metadata"]["name"] for one in found["StatefulSet"]["spec"]["volumeClaimTemplates"]
    }
    assert {one["name"] for one in mounts.values()} == names
    data = found["ConfigMap"]["data"]
    assert {one["subPath"] for one in mounts.values() if "subPath" in one} == set(data)
    assert tomllib.loads(data["fleet.toml"]) == tomllib.loads(fleet.read_text())
    assert data["jobs.sql"] == (metrics / "jobs.sql").read_text()


def test_a_pod_runs_the_command_and_not_the_images_targets() -> None:
    """Its args alone would follow the image's ENTRYPOINT, which has targets of its own."""
    found = manifest([DSN], None, None)
    assert "ConfigMap" not in found
    (container,) = found["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["mrtuner"]
    assert container["args"] == ["record", DSN, "--dir", "/var/lib/mrtuner"]
    assert (
        found["Service"]["spec"]["selector"]
        == (found["StatefulSet"]["spec"]["template"]["metadata"]["labels"])
    )


def test_kubernetes_puts_no_variable_into_an_argument() -> None:
    """$$(HOME) is $(HOME). Source: kubernetes.io, Define a Command and Arguments."""
    (container,) = manifest([ODD], None, None)["StatefulSet"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["args"][1] == ODD.replace("$(HOME)", "$$(HOME)")


@pytest.mark.parametrize("kind", ["container", "kubernetes"])
def test_what_no_container_could_use_is_refused(kind: str, tmp_path: Path, fleet: Path) -> None:
    with pytest.raises(UsageError, match="local server"):
        written(kind, ["local"], None, None)
    fleet.write_text('[instances]\nshop = "postgresql://a:hunter2@db/shop"\n')
    with pytest.raises(UsageError, match="must not hold a password") as refused:
        written(kind, [], None, fleet)
    assert "hunter2" not in str(refused.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="has no SQL files"):
        written(kind, [DSN], None, None, tmp_path / "empty")
    with pytest.raises(BadValue, match="cannot read"):
        written(kind, [DSN], None, None, tmp_path / "not-there")
