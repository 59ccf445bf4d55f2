"""`mrtuner tune` on five servers, for docs/concepts/five-servers.md: real ones, made for the page.

Their machines are given as options, so that the answers depend on the settings and the data alone.
`python -m docs.five_servers` writes the page; a test compares it with what the servers say.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from mrtuner.postgres.binaries import find_binaries
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.read_server import read
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.present.text import Look
from mrtuner.tuning import tune_server
from mrtuner.tuning.gather import flags
from mrtuner.tuning.report.text import screen

PAGE: Final = Path(__file__).resolve().parent / "concepts/five-servers.md"
_ABOUT: Final = """\
# Five servers, and what they are told

What `mrtuner tune` says of five real servers, in full, for an administrator to read line by line.
They run PostgreSQL 18 and were made for this page (`python -m docs.five_servers`). Their machines
are given as options, since all five ran on a small one. A test runs them again and compares.
"""


@dataclass(frozen=True, kw_only=True)
class Example:
    """One server: what it is, its settings and data, and the machine to tune it for."""

    title: str
    about: str
    machine: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    statements: Sequence[str] = ()
    standby: bool = False


EXAMPLES: Final = (
    Example(
        title="A small web server",
        about="2 GB, two CPUs, a network volume of 40 GB. Nobody has tuned it yet.",
        machine={"memory": "2GB", "cpus": 2, "storage": "ebs", "disk": "40GB", "workload": "web"},
    ),
    Example(
        title="A primary with a standby",
        about="32 GB and 16 CPUs. `random_page_cost` and `work_mem` were chosen by hand, so they "
        "stay. More worker processes would pause replay on the standby, which is said before "
        "anything is written.",
        machine={"memory": "32GB", "cpus": 16, "storage": "nvme", "disk": "1TB",
                 "workload": "oltp"},
        settings={"random_page_cost": 1.5, "work_mem": "16MB"},
        standby=True,
    ),
    Example(
        title="512 GB for analysis",
        about="64 CPUs, 4 TB of data, 40 sessions of which 8 are active.",
        machine={"memory": "512GB", "cpus": 64, "storage": "nvme", "disk": "10TB", "data": "4TB",
                 "workload": "olap", "active": 8},
    ),
    Example(
        title="A container of 1 GB with 160 sessions of 100 MB",
        about="`max_connections` and `work_mem` were set by hand for a larger machine, and "
        "autovacuum is off. The dangers come first. `work_mem` is lowered only with `--lower "
        "work_mem`, and until then nothing is raised that needs memory.",
        machine={"memory": "1GB", "cpus": 2, "storage": "network", "disk": "20GB"},
        settings={"max_connections": 160, "work_mem": "100MB", "autovacuum": "off"},
    ),
    Example(
        title="A server that was restored a moment ago",
        about="64 GB and 16 CPUs. Its counters show the restore, so they move no value.",
        machine={"memory": "64GB", "cpus": 16, "storage": "ssd", "disk": "500GB",
                 "workload": "mixed"},
        statements=(
            "CREATE TABLE orders AS SELECT g AS id, repeat('x', 900) AS text"
            " FROM generate_series(1, 330000) AS g",
            "CHECKPOINT",
        ),
    ),
)  # fmt: skip


def page() -> Iterator[str]:
    """The whole page, line by line; starts and removes a server for each section."""
    yield from _ABOUT.splitlines()
    for example in EXAMPLES:
        yield ""
        yield f"## {example.title}"
        yield ""
        yield example.about
        yield ""
        yield "```text"
        yield from answer(example)
        yield "```"


def answer(example: Example) -> list[str]:
    """What `mrtuner tune` prints for it, as of a server on another machine."""
    with running(example) as dsn, connect(dsn) as connection:
        server = replace(read(connection), local_pid=None)
    look = Look(width=96, bar="█")
    return list(screen(tune_server(server, flags(**example.machine)), look))


@contextmanager
def running(example: Example) -> Iterator[str]:
    """The server, with its standby if it has one; removed at the end."""
    with ExitStack() as stack:
        primary = _started(stack, example.settings)
        if example.standby:
            _follow(stack, primary)
        with connect(primary.dsn(), own_search_path=True) as connection:
            for statement in example.statements:
                connection.execute(statement.encode())
        yield primary.dsn()


def _started(stack: ExitStack, settings: Mapping[str, Any]) -> Cluster:
    cluster = Cluster.create(find_binaries(), scratch_directory(), settings)
    stack.callback(cluster.remove)
    cluster.start()
    return cluster


def _follow(stack: ExitStack, primary: Cluster) -> None:
    """Make a streaming standby of it, and wait until it streams."""
    copy = replace(primary, directory=scratch_directory())
    primary.run(
        "pg_basebackup", "-D", copy.data, "-d", primary.dsn(), "-R", "-c", "fast", "-X", "stream"
    ).check_returncode()
    copy.configure({"unix_socket_directories": str(copy.directory)})
    stack.callback(copy.remove)
    copy.start()
    with connect(primary.dsn()) as connection:
        for _ in range(100):
            (streaming,) = connection.execute(
                "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
            ).fetchone() or (0,)
            if streaming:
                return
            time.sleep(0.1)
    raise TimeoutError("the standby does not stream")


if __name__ == "__main__":
    PAGE.write_text("\n".join(page()) + "\n", encoding="utf-8")
