"""Real servers accept what we write, and then have these values."""

from __future__ import annotations

import subprocess

import psycopg
import pytest
import yaml
from conftest import NewCluster

from mrtuner.formats import Line, render
from mrtuner.postgres.cluster import Cluster


def line(name: str, value: str, *, quoted: bool = False) -> Line:
    return Line(name=name, value=value, quoted=quoted, comment="it's a # reason", restart=False)


PREFIX = '%m [%p] it\'s \\ "x" #1 '

#: The line, and what SHOW answers.
SETTINGS = (
    (line("shared_buffers", "48MB"), "48MB"),
    (line("work_mem", "8192kB"), "8MB"),
    (line("maintenance_work_mem", "0.125GB"), "128MB"),
    (line("max_connections", "50"), "50"),
    (line("max_wal_size", "2GB"), "2GB"),
    (line("effective_cache_size", "131072"), "1GB"),
    (line("checkpoint_timeout", "900s"), "15min"),
    (line("checkpoint_completion_target", "0.9"), "0.9"),
    (line("random_page_cost", "1.1"), "1.1"),
    (line("cpu_tuple_cost", "1e-05"), "1e-05"),
    (line("autovacuum_work_mem", "-1"), "-1"),
    (line("autovacuum_vacuum_cost_delay", "2ms"), "2ms"),
    (line("idle_in_transaction_session_timeout", "10min"), "10min"),
    (line("jit", "off"), "off"),
    (line("track_io_timing", "on"), "on"),
    (line("log_line_prefix", PREFIX, quoted=True), PREFIX),
    # libraries of every build; a server that reads them as one name does not start
    (line("shared_preload_libraries", "plpgsql, dict_snowball", quoted=True),) * 2,
)
LINES = [each[0] for each in SETTINGS]
SHOWN = {
    each.name: answer if isinstance(answer, str) else answer.value for each, answer in SETTINGS
}
#: Names that no library claims take any text.
STRANGE = ["", " a ", "it's", "\\", "a\\'b", '"', "#", "a=b", "1e5", "0x1", "on off", "日本", "%"]


def shown(cluster: Cluster, names: list[str]) -> dict[str, str]:
    with psycopg.connect(cluster.dsn()) as connection:
        rows = (connection.execute("SELECT current_setting(%s)", [name]) for name in names)
        return {
            name: str((row.fetchone() or [None])[0])
            for name, row in zip(names, rows, strict=True)
        }  # fmt: skip


def problems(cluster: Cluster) -> list[str]:
    with psycopg.connect(cluster.dsn()) as connection:
        found = connection.execute(
            "SELECT name || ': ' || error FROM pg_file_settings WHERE error IS NOT NULL"
        )
        return [row[0] for row in found]


def sources(cluster: Cluster) -> set[str]:
    with psycopg.connect(cluster.dsn()) as connection:
        found = connection.execute(
            "SELECT DISTINCT substring(sourcefile from '[^/]+$') FROM pg_settings"
            " WHERE name = ANY(%s)",
            [list(SHOWN)],
        )
        return {row[0] for row in found}


def test_a_server_takes_the_file_and_the_statements(
    each_major: int, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(each_major)
    strange = [line(f"strange.v{at}", each, quoted=True) for at, each in enumerate(STRANGE)]
    included = cluster.data / "mrtuner.conf"
    included.write_text(render("conf", [*LINES, *strange], title="for a test"), encoding="utf-8")
    cluster.configure({"include": "mrtuner.conf"})
    cluster.restart()
    assert problems(cluster) == []
    assert shown(cluster, list(SHOWN)) == SHOWN
    assert sources(cluster) == {"mrtuner.conf"}
    assert list(shown(cluster, [each.name for each in strange]).values()) == STRANGE

    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        for statement in render("sql", LINES, title="for a test").splitlines():
            if not statement.startswith("--"):
                connection.execute(statement.encode())
    cluster.restart()
    assert problems(cluster) == []
    assert shown(cluster, list(SHOWN)) == SHOWN
    assert sources(cluster) == {"postgresql.auto.conf"}


@pytest.mark.parametrize("name", ["work_mem", "log_line_prefix", "shared_preload_libraries"])
def test_the_server_reads_the_arguments_of_the_compose_file(embedded: Cluster, name: str) -> None:
    """`postgres -C name` prints the value in force and exits; work_mem in kB."""
    service = yaml.safe_load(render("docker", LINES))["services"]["postgres"]
    arguments = [word.replace("$$", "$") for word in service["command"]]
    assert arguments.pop(0) == "postgres"
    try:
        done = embedded.run("postgres", "-D", embedded.data, *arguments, "-C", name)
    except subprocess.CalledProcessError as error:  # pragma: no cover: shows why
        pytest.fail(str(error.stderr))
    assert done.stdout.rstrip("\n") == (SHOWN | {"work_mem": "8192"})[name]
