"""Servers as people run them: built with lz4, zstd and liburing, or without."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import NewCluster

from command_line import run
from machine import needs
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory
from servers import debian_binaries, pg_ctl, sql

pytestmark = pytest.mark.timed

MACHINE = ("--memory", "2GB", "--cpus", "2", "--storage", "ssd", "--disk", "100GB")
URING = "io_uring with 4 MB of locked memory"
Debian = Callable[..., Cluster]


@pytest.fixture
def debian() -> Iterator[Debian]:
    """Start Debian's build of a major, which has all the libraries."""
    made: list[Cluster] = []

    def start(major: int, **settings: str) -> Cluster:
        made.append(Cluster.create(debian_binaries(major), scratch_directory(), settings))
        made[-1].start()
        return made[-1]

    yield start
    for cluster in made:
        cluster.remove()


def tuned(cluster: Cluster) -> dict[str, Any]:
    """What the command says of each parameter, by name."""
    done = run("tune", cluster.dsn(), *MACHINE, "--json", "--all")
    assert done.exit_code == 0, done.output
    return {item["name"]: item for item in json.loads(done.stdout)["advice"]}


def shown(cluster: Cluster) -> dict[str, str]:
    """Every value, as a person would write it."""
    return {row[0]: row[1] for row in sql(cluster.dsn(), "SHOW ALL")}


@pytest.mark.parametrize(("major", "toast"), [(18, "change"), (19, "keep")])
def test_lz4_is_advised_where_the_build_has_it(debian: Debian, major: int, toast: str) -> None:
    """It is the default for TOAST since 19."""
    said = tuned(debian(major))
    wal, values = said["wal_compression"], said["default_toast_compression"]
    assert (wal["verdict"], wal["value"]) == ("change", "lz4")
    assert (values["verdict"], values["value"]) == (toast, "lz4")


def test_lz4_is_not_advised_where_the_build_lacks_it(new_cluster: NewCluster) -> None:
    """The embedded server and Maven's have no lz4."""
    said = tuned(new_cluster(18))
    for name, value in {"wal_compression": "off", "default_toast_compression": "pglz"}.items():
        assert (said[name]["verdict"], said[name]["value"]) == ("keep", value)
        assert "this build lacks lz4" in said[name]["reason"]
    assert "this build lacks it" in said["io_method"]["reason"]


@needs(URING)
@pytest.mark.parametrize("major", [18, 19])
def test_a_server_with_io_uring_is_tuned_and_keeps_it(debian: Debian, major: int) -> None:
    said = tuned(debian(major, io_method="io_uring"))
    assert (said["io_method"]["verdict"], said["io_method"]["value"]) == ("keep", "io_uring")
    workers = "io_workers" if major == 18 else "io_max_workers"
    assert "only used with io_method = worker" in said[workers]["reason"]


@pytest.mark.parametrize("major", [18, 19])
@pytest.mark.parametrize("io_method", ["worker", pytest.param("io_uring", marks=needs(URING))])
def test_a_server_starts_with_all_that_is_applied(
    debian: Debian, major: int, io_method: str, tmp_path: Path
) -> None:
    """And undone, it starts with what it had."""
    cluster = debian(major, io_method=io_method)
    before = shown(cluster)
    wanted = {
        name: item["value"]
        for name, item in tuned(cluster).items()
        if item["verdict"] == "change" and not item["suggestion"]
    }
    assert {"shared_buffers", "wal_compression"} < wanted.keys()
    common = ("--journal", str(tmp_path / "journal"), "--restart", pg_ctl(cluster, "restart"))
    done = run("apply", cluster.dsn(), *MACHINE, "--yes", *common)
    assert done.exit_code == 0, done.output
    assert {name: shown(cluster)[name] for name in wanted} == wanted
    done = run("undo", cluster.dsn(), "--yes", *common)
    assert done.exit_code == 0, done.output
    assert shown(cluster) == before
