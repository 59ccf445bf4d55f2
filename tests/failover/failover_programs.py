"""Clients in other languages: fetched from their registries once, then built with a snippet.

What is fetched goes below .cache/clients of the checkout, by the ordinary tool of each language;
versions are pinned here, in clients/pgx/go.mod and in clients/node/package.json. A tool or package
that cannot be had skips the test with a sentence.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Final

import pytest
from failover_stacks import CLIENTS, OURS, THEIRS, python, written

from mrtuner.failover.namespaces import SERVER

if TYPE_CHECKING:
    from mrtuner.failover.settings import Settings

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / ".cache" / "clients"
PGJDBC: Final = "org.postgresql:postgresql:42.7.4"
HIKARICP: Final = ("com.zaxxer:HikariCP:5.1.0", "org.slf4j:slf4j-api:2.0.16")
CONNECTOR_J: Final = "com.mysql:mysql-connector-j:9.1.0"
_JAVA: Final = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
GO: Final = {
    "GOPATH": str(ROOT / ".cache" / "go"),
    "GOCACHE": str(ROOT / ".cache" / "go-build"),
    "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
}
_PLACE: Final = "// SNIPPET"


def needed(*programs: str) -> None:
    """Skip unless all are installed."""
    for program in programs:
        if which(program) is None:
            pytest.skip(f"{program} is not installed")


def fetch(command: Sequence[str], directory: Path, **environment: str) -> None:
    """Run what fetches a client; skip where the registry cannot be reached."""
    directory.mkdir(parents=True, exist_ok=True)
    if _run(command, directory, environment).returncode:
        pytest.skip(f"{command[0]} cannot fetch the client here")


def build(command: Sequence[str], directory: Path, **environment: str) -> None:
    """A snippet that does not compile is a failure."""
    done = _run(command, directory, environment)
    assert done.returncode == 0, done.stdout + done.stderr


def _run(
    command: Sequence[str], directory: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory, env={**os.environ, **environment}, text=True, check=False,
        capture_output=True, timeout=200,
    )  # fmt: skip


def with_snippet(source: Path, directory: Path, snippet: str, **constants: str) -> Path:
    """A program with the snippet in its place."""
    text = source.read_text().replace(_PLACE, snippet.replace(THEIRS, OURS))
    for name, value in constants.items():
        text = text.replace(name, value)
    place = directory / source.name
    place.write_text(text)
    return place


def node(made: Settings, directory: Path) -> list[str]:
    """node-postgres."""
    needed("node", "npm")
    place = CACHE / "node"
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(CLIENTS / "node" / "package.json", place)
    if not (place / "node_modules" / "pg").is_dir():
        fetch(["npm", "install", "--silent", "--no-audit", "--no-fund"], place)
    program = with_snippet(CLIENTS / "node" / "client.js", directory, made.text)
    where = {"NODE_PATH": str(place / "node_modules"), "PGHOST": SERVER, "PGUSER": "postgres"}
    return ["env", *(f"{name}={value}" for name, value in where.items()), "node", str(program)]


def pgx(made: Settings, directory: Path) -> list[str]:
    """pgx and its pool."""
    needed("go")
    for name in ("go.mod", "go.sum"):
        shutil.copy(CLIENTS / "pgx" / name, directory)
    fetch(["go", "mod", "download"], directory, **GO)
    query = made.bounds.read_timeout or 0
    with_snippet(
        CLIENTS / "pgx" / "main.go", directory, made.text,
        acquireWithin=f"({made.bounds.pool_wait} * time.Second)",
        queryWithin=f"(time.Duration({query}) * time.Second)",
    )  # fmt: skip
    build(["go", "build", "-o", "client", "."], directory, **GO)
    return [str(directory / "client")]


def jars(*artifacts: str) -> str:
    """A class path."""
    needed("java", "javac")
    return ":".join(str(fetched(artifact, "jar")) for artifact in artifacts)


def fetched(artifact: str, kind: str) -> Path:
    """A file out of Maven's repositories."""
    needed("mvn")
    place = CACHE / "java"
    _, name, version = artifact.split(":")
    file = place / f"{name}-{version}.{kind}"
    if not file.is_file():
        what = (f"-Dartifact={artifact}:{kind}", f"-DoutputDirectory={place}")
        fetch(["mvn", "-q", "-B", "dependency:copy", *what], place)
    return file


def java(program: str, path: str, directory: Path, *arguments: str) -> list[str]:
    """A Java client of ours."""
    sources = [str(CLIENTS / "java" / f"{name}.java") for name in ("Conversation", program)]
    build(["javac", "-d", str(directory), "-cp", path, *sources], directory)
    return [*_JAVA, "-cp", f"{directory}:{path}", program, *arguments]


def pgjdbc(made: Settings, directory: Path) -> list[str]:
    """The driver alone."""
    url = made.text.splitlines()[0].replace("db/shop", f"{SERVER}/postgres")
    return java("Jdbc", jars(PGJDBC), directory, url, "postgres", "SELECT pg_sleep(60)")


def hikaricp(made: Settings, directory: Path) -> list[str]:
    """The pool over it; the URL is the reader's own."""
    own = f"jdbcUrl=jdbc:postgresql://{SERVER}/postgres\nusername=postgres\n"
    properties = written(directory, "hikari.properties", own + made.text)
    return java("Hikari", jars(PGJDBC, *HIKARICP), directory, properties)


def rails(made: Settings, directory: Path) -> list[str]:
    """ActiveRecord and ruby-pg, as Debian has them."""
    needed("ruby")
    tried = subprocess.run(
        ["ruby", "-e", "require 'pg'; require 'active_record'"], check=False, capture_output=True
    )
    if tried.returncode:
        pytest.skip("ruby-activerecord and ruby-pg are not installed")
    yaml = written(directory, "database.yml", made.text)
    return ["ruby", str(CLIENTS / "client_rails.rb"), yaml, SERVER]


def pymysql(made: Settings, directory: Path) -> list[str]:
    """PyMySQL."""
    return python("client_pymysql.py", written(directory, "mysql.txt", made.text), SERVER)


def connector_j(made: Settings, directory: Path) -> list[str]:
    """MySQL's own driver."""
    url = made.text.splitlines()[0].replace("db/shop", f"{SERVER}:5432/mysql")
    return java("Jdbc", jars(CONNECTOR_J), directory, url, "root", "SELECT SLEEP(60)")
