"""Clients in other languages: fetched from their registries once, then built with a snippet.

What is fetched goes below .cache/clients of the checkout, by the ordinary tool of each language;
versions are pinned here, in clients/pgx/go.mod and in clients/node/package.json. A missing tool or
package skips the test with a reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zipfile import ZipFile

import pytest
from failover_stacks import CLIENTS, OURS, THEIRS, opened, python, written
from psycopg.conninfo import conninfo_to_dict

import machine
from machine import require
from mrtuner.failover.namespaces import SERVER
from node_packages import node_packages

if TYPE_CHECKING:
    from mrtuner.failover.settings.advice import Settings

ROOT: Final = Path(__file__).resolve().parents[4]
CACHE: Final = ROOT / ".cache" / "clients"
PGJDBC: Final = "org.postgresql:postgresql:42.7.4"
HIKARICP: Final = ("com.zaxxer:HikariCP:5.1.0", "org.slf4j:slf4j-api:2.0.16")
WILDFLY: Final = "org.wildfly:wildfly-dist:34.0.0.Final"
CONNECTOR_J: Final = "com.mysql:mysql-connector-j:9.1.0"
ASYNCPG: Final = "asyncpg==0.32.0"
PG8000: Final = "pg8000==1.31.6"
_JAVA: Final = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
GO: Final = {
    "GOPATH": str(ROOT / ".cache" / "go"),
    "GOCACHE": str(ROOT / ".cache" / "go-build"),
    "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
}
_PLACE: Final = "// SNIPPET"


def fetch(command: Sequence[str], directory: Path, **environment: str) -> None:
    """Run what fetches a client; skip where the registry cannot be reached."""
    directory.mkdir(parents=True, exist_ok=True)
    with suppress(subprocess.TimeoutExpired):
        if _run(command, directory, environment).returncode == 0:
            return
    pytest.skip(f"{command[0]} cannot fetch the client here")


def build(command: Sequence[str], directory: Path, **environment: str) -> None:
    """Compile; a snippet that does not compile fails the test."""
    done = _run(command, directory, environment)
    assert done.returncode == 0, done.stdout + done.stderr


def _run(
    command: Sequence[str], directory: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory, env={**os.environ, **environment}, text=True, check=False,
        capture_output=True, timeout=600,
    )  # fmt: skip


def with_snippet(source: Path, directory: Path, snippet: str, **constants: str) -> Path:
    """Write a program with the snippet inserted; its path."""
    text = source.read_text().replace(_PLACE, snippet.replace(THEIRS, OURS))
    for name, value in constants.items():
        text = text.replace(name, value)
    place = directory / source.name
    place.write_text(text)
    return place


def asyncpg(made: Settings, directory: Path) -> list[str]:
    """asyncpg and its pool."""
    return _with_package(ASYNCPG, "client_asyncpg.py", written(directory, "asyncpg.txt", made.text),
                         f"postgresql://{OURS}")  # fmt: skip


def asyncpg_paused(made: Settings, directory: Path, dsn: str) -> list[str]:
    """asyncpg's pool, and a server that pauses while a connection is released."""
    where = conninfo_to_dict(dsn)
    url = "postgresql://{user}@{host}:{port}/{dbname}".format_map(where)
    return _with_package(
        ASYNCPG, "client_asyncpg_paused.py", written(directory, "asyncpg.txt", made.text), url
    )


def pg8000(made: Settings, directory: Path) -> list[str]:
    """pg8000."""
    snippet = written(directory, "pg8000.txt", made.text)
    return _with_package(PG8000, "client_pg8000.py", snippet, SERVER)


def _with_package(package: str, program: str, *arguments: str) -> list[str]:
    """A Python client with one more package, which pip installs into a directory of its own."""
    place = CACHE / "python" / package
    if not place.is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(place), package]
        fetch(pip, place.parent)
    return ["env", f"PYTHONPATH={place}", *python(program, *arguments)]


def node(made: Settings, directory: Path) -> list[str]:
    """node-postgres."""
    packages = node_packages()
    program = with_snippet(CLIENTS / "node" / "client.js", directory, made.text)
    where = {"NODE_PATH": str(packages), "PGHOST": SERVER, "PGUSER": "postgres"}
    return [
        "env",
        *(f"{name}={value}" for name, value in where.items()),
        machine.program("node"),
        str(program),
    ]


def pgx(made: Settings, directory: Path) -> list[str]:
    """pgx and its pool."""
    require("go")
    for name in ("go.mod", "go.sum"):
        shutil.copy(CLIENTS / "pgx" / name, directory)
    fetch(["go", "mod", "download"], directory, **GO)
    with_snippet(
        CLIENTS / "pgx" / "main.go", directory, made.text,
        acquireWithin=_deadline("pool.Acquire", made.text),
        queryWithin=_deadline("query", made.text),
    )  # fmt: skip
    build(["go", "build", "-o", "client", "."], directory, **GO)
    return [str(directory / "client")]


def pgx_compiles(version: str, made: Settings, directory: Path) -> None:
    """Compile the same program with another release of pgx."""
    require("go")
    place = directory / version
    place.mkdir()
    flags = {**GO, "GOFLAGS": GO["GOFLAGS"].replace("readonly", "mod")}
    build(["go", "mod", "init", "mrtuner.example/client"], place, **flags)
    with_snippet(
        CLIENTS / "pgx" / "main.go", place, made.text,
        acquireWithin="time.Second", queryWithin="time.Second",
    )  # fmt: skip
    modules = (f"github.com/jackc/pgx/v5@{version}", "golang.org/x/sys")
    fetch(["go", "get", *modules], place, **flags)
    build(["go", "build", "-o", "client", "."], place, **flags)


def _deadline(of: str, snippet: str) -> str:
    """The deadline that the snippet's comment sets for each `of`, as Go code; 0 is none."""
    told = re.search(rf"// every {of}: .*?(\d+)\*time\.Second", snippet)
    return f"(time.Duration({told[1] if told else 0}) * time.Second)"


def jars(*artifacts: str) -> str:
    """The class path of these artifacts, fetched if needed."""
    require("java", "javac")
    return ":".join(str(fetched(artifact, "jar")) for artifact in artifacts)


def fetched(artifact: str, kind: str) -> Path:
    """An artifact's file, fetched from Maven's repositories if needed."""
    place = CACHE / "java"
    _, name, version = artifact.split(":")
    file = place / f"{name}-{version}.{kind}"
    if not file.is_file():
        require("mvn")
        what = (f"-Dartifact={artifact}:{kind}", f"-DoutputDirectory={place}")
        fetch(["mvn", "-q", "-B", "dependency:copy", *what], place)
    return file


def java(program: str, path: str, directory: Path, *arguments: str) -> list[str]:
    """The command line of one of our Java clients, compiled."""
    sources = [str(CLIENTS / "java" / f"{name}.java") for name in ("Conversation", program)]
    build(["javac", "-d", str(directory), "-cp", path, *sources], directory)
    return [*_JAVA, "-cp", f"{directory}:{path}", program, *arguments]


def pgjdbc(made: Settings, directory: Path) -> list[str]:
    """pgjdbc without a pool."""
    url = made.text.splitlines()[0].replace("db/shop", f"{SERVER}/postgres")
    return java("Jdbc", jars(PGJDBC), directory, url, "postgres", "SELECT pg_sleep(60)")


def hikaricp(made: Settings, directory: Path) -> list[str]:
    """HikariCP over pgjdbc; the snippet leaves the URL to the reader."""
    own = f"jdbcUrl=jdbc:postgresql://{SERVER}/postgres\nusername=postgres\n"
    properties = written(directory, "hikari.properties", own + made.text)
    return java("Hikari", jars(PGJDBC, *HIKARICP), directory, properties)


def wildfly(made: Settings, directory: Path) -> list[str]:
    """WildFly with the generated datasource in its standalone.xml, and a servlet."""
    require("java", "javac")
    home = _unpacked(fetched(WILDFLY, "zip"))
    base = directory / "standalone"
    shutil.copytree(home / "standalone", base)
    _driver(base / "modules" / "org" / "postgresql" / "main", fetched(PGJDBC, "jar"))
    configuration = base / "configuration" / "standalone.xml"
    configuration.write_text(_datasources(configuration.read_text(), made.text))
    _war(base / "deployments" / "client.war", home, directory)
    return python("client_wildfly.py", str(home), str(base))


def _unpacked(archive: Path) -> Path:
    """Unpack a server in the cache, if not done yet; its directory."""
    home = archive.with_suffix("")
    if not home.is_dir():
        with tempfile.TemporaryDirectory(dir=archive.parent) as place:
            shutil.unpack_archive(archive, place)
            next(Path(place).iterdir()).rename(home)
    return home


def _driver(place: Path, jar: Path) -> None:
    """Write a WildFly module with the driver."""
    place.mkdir(parents=True)
    shutil.copy(jar, place / "driver.jar")
    needs = "".join(
        f'<module name="{name}"/>' for name in ("java.se", "jdk.net", "jdk.security.auth")
    )
    (place / "module.xml").write_text(
        '<module xmlns="urn:jboss:module:1.9" name="org.postgresql">'
        '<resources><resource-root path="driver.jar"/></resources>'
        f"<dependencies>{needs}</dependencies></module>"
    )


def _datasources(standalone: str, snippet: str) -> str:
    """The configuration with the snippet, twice for two pools, in place of the example."""
    ours = snippet.replace("db/shop", f"{SERVER}/postgres").replace('"app"', '"postgres"')
    driver = '<driver name="postgresql" module="org.postgresql"/>'
    example = "java:jboss/datasources/ExampleDS"
    first, _, rest = standalone.partition(f'<datasource jndi-name="{example}"')
    _, _, rest = rest.partition("</datasource>")
    both = ours + ours.replace("ShopDS", "LateDS")
    rest = rest.replace("<drivers>", f"<drivers>{driver}").replace(example, "java:/ShopDS")
    return first + both + rest


def _war(place: Path, home: Path, directory: Path) -> None:
    """Compile the servlet and write the application archive."""
    (servlet,) = home.glob("modules/system/layers/base/jakarta/servlet/api/main/*.jar")
    classes = directory / "classes"
    build(
        ["javac", "-d", str(classes), "-cp", str(servlet), str(CLIENTS / "java" / "Wild.java")],
        directory,
    )
    with ZipFile(place, "w") as war:
        for file in classes.glob("*.class"):
            war.write(file, f"WEB-INF/classes/{file.name}")


def rails(made: Settings, directory: Path) -> list[str]:
    """ActiveRecord and ruby-pg from Debian's packages."""
    require("pg", "active_record/version")
    yaml = written(directory, "database.yml", made.text)
    return ["ruby", str(CLIENTS / "client_rails.rb"), yaml, SERVER]


@contextmanager
def mariadb(directory: Path) -> Iterator[Path]:
    """A MariaDB server from Debian's packages; yields its Unix socket."""
    require("mariadbd", "mariadb-install-db", "my_print_defaults")
    data, listening = directory / "mariadb", directory / "mariadb.sock"
    root = ["--user=root"] if os.geteuid() == 0 else []
    build(["mariadb-install-db", "--no-defaults", *root, f"--datadir={data}"], directory)
    server = subprocess.Popen(
        [
            "mariadbd", "--no-defaults", *root, f"--datadir={data}", f"--socket={listening}",
            "--skip-networking", "--skip-grant-tables",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for _ in range(600):
            if listening.exists() or server.poll() is not None:
                break
            time.sleep(0.1)
        with opened(str(listening), directory / "server") as path:
            yield path
    finally:
        server.terminate()
        server.wait(60)


def pymysql(made: Settings, directory: Path) -> list[str]:
    """PyMySQL."""
    return python("client_pymysql.py", written(directory, "mysql.txt", made.text), SERVER)


def connector_j(made: Settings, directory: Path) -> list[str]:
    """MySQL's own driver."""
    url = made.text.splitlines()[0].replace("db/shop", f"{SERVER}:5432/mysql")
    return java("Jdbc", jars(CONNECTOR_J), directory, url, "root", "SELECT SLEEP(60)")
