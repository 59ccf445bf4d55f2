"""The servers that the tests fetch: what Debian's builds have, and what is said without them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import fetch_servers
import psycopg
import pytest

from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory
from servers import debian_binaries


@pytest.mark.parametrize("major", [18, 19])
def test_debians_build_has_what_the_others_lack(major: int) -> None:
    binaries = debian_binaries(major)
    assert binaries.major == major
    for program in ("psql", "pgbench", "pg_dump"):
        ran = subprocess.run(
            [binaries.program(program), "--version"], capture_output=True, check=True
        )
        assert f"PostgreSQL) {binaries.version} " in ran.stdout.decode()
    cluster = Cluster.create(binaries, scratch_directory(), {"jit": "off"})
    try:
        with cluster, psycopg.connect(cluster.dsn(), autocommit=True) as server:
            rows = server.execute("SELECT name, enumvals FROM pg_settings").fetchall()
            for extension in ("dblink", "xml2", "pgcrypto", "pg_stat_statements"):
                server.execute(f"CREATE EXTENSION {extension}")  # loads libpq, libxml2, OpenSSL
            server.execute("CREATE COLLATION german (provider = icu, locale = 'de')")
    finally:
        cluster.remove()
    words: dict[str, list[str]] = dict(rows)
    assert {"lz4", "zstd"} < set(words["wal_compression"])
    assert "lz4" in words["default_toast_compression"]
    assert "io_uring" in words["io_method"]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that replaces PATH; whatever is put there does nothing and succeeds."""
    place = tmp_path / "programs"
    place.mkdir()
    monkeypatch.setenv("PATH", str(place))
    return place


def put(place: Path, name: str, script: str = "") -> None:
    (place / name).write_text(f"#!/bin/sh\n{script}\n")
    (place / name).chmod(0o755)


def test_a_missing_program_is_named(programs: Path, tmp_path: Path) -> None:
    put(programs, "apt-get")
    put(programs, "apt-cache")
    with pytest.raises(fetch_servers.CannotFetch, match=r"^dpkg-deb is not installed$"):
        fetch_servers.fetch(19, tmp_path)
    assert not (tmp_path / "debian-19").exists()


def test_sources_without_an_archive_of_debian_are_reported(programs: Path, tmp_path: Path) -> None:
    for name in ("apt-cache", "dpkg-deb", "patchelf"):
        put(programs, name)
    put(programs, "apt-get", "echo https://apt.example.org/ubuntu/")
    with pytest.raises(fetch_servers.CannotFetch, match="name no archive of Debian"):
        fetch_servers.fetch_debian(18, tmp_path)


def test_a_download_that_fails_leaves_nothing(programs: Path, tmp_path: Path) -> None:
    for name in ("apt-cache", "dpkg-deb", "patchelf"):
        put(programs, name)
    failing = 'case "$1" in indextargets) echo https://example.org/debian/;; *) exit 100;; esac'
    put(programs, "apt-get", failing)
    with pytest.raises(fetch_servers.CannotFetch, match="postgresql-19 from Debian experimental"):
        fetch_servers.fetch(19, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".lock-debian-19", "programs"]


def test_a_build_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert fetch_servers.main(["debian-12"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: no build is called debian-12\nHINT: There are 13, 14, ")
