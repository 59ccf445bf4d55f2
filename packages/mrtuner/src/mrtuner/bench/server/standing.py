"""Servers side by side on copies of the same data: warm, and not restarted between runs.

One cluster is filled and stopped, and its directory copied, so that all servers have the very same
files. Each is started once, with its own settings, and idles while another is measured.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mrtuner.bench.load.pgbench import initialise
from mrtuner.bench.server import guard, instance, scratch
from mrtuner.bench.server.instance import Volume
from mrtuner.errors import MrTunerError
from mrtuner.postgres.binaries import Binaries
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.units import Bytes

#: The database that the loads run in.
DATABASE: Final = "bench"
#: For filling only; a copy does not keep them.
_FILLING: Final = {"max_wal_size": "2GB", "shared_buffers": "256MB", "maintenance_work_mem": "64MB"}
_FILLING_LINES: Final = re.compile(rf"^({'|'.join(_FILLING)}) = .*\n", re.MULTILINE)
_COPY_HINT: Final = "Free some space there, or set TMPDIR to another directory."


@dataclass(frozen=True, slots=True)
class Standing:
    """A server of ours that keeps running between runs; see `variant.VariantServer`."""

    site: str  # name of its side: no other side shares its data
    cluster: Cluster
    companions: Sequence[int] = ()

    @property
    def dsn(self) -> str:
        return self.cluster.dsn()

    @property
    def data(self) -> Path | None:
        return self.cluster.data

    def start(self) -> None:
        """Do nothing: the server already runs."""

    def stop(self) -> None:
        """Do nothing: the server keeps running."""

    def layered(self) -> AbstractContextManager[None]:
        """Do nothing: the data lie in ordinary files."""
        return nullcontext()


def filled(binaries: Binaries, directory: Path, scale: int) -> Cluster:
    """A stopped cluster with pgbench's tables, vacuumed: no clean-up is left for readers."""
    cluster = Cluster.create(binaries, directory, _FILLING)
    with guard.server_stopped(cluster.data), cluster:
        with connect(cluster.dsn()) as session:
            session.execute(f"CREATE DATABASE {DATABASE}")
        dsn = cluster.dsn(DATABASE)
        initialise(dsn, scale, program=binaries.program("pgbench"))
        scratch.settle(dsn)
    _rewrite(cluster, lambda text: re.sub(_FILLING_LINES, "", text))
    return cluster


def copied(template: Cluster, directory: Path) -> Cluster:
    """A copy of a stopped cluster in a directory of its own."""
    done = subprocess.run(
        ["cp", "-a", "--reflink=auto", str(template.directory), str(directory)],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        raise MrTunerError(
            f"cannot copy the data to {directory}: {done.stderr.strip()}", _COPY_HINT
        )
    return _at_home(template, directory)


def _moved(template: Cluster, directory: Path) -> Cluster:
    """Use the template itself as one of the sides, which saves a copy."""
    try:
        template.directory.rename(directory)
    except OSError:  # it lies on another file system
        made = copied(template, directory)
        shutil.rmtree(template.directory, ignore_errors=True)
        return made
    return _at_home(template, directory)


def _at_home(template: Cluster, directory: Path) -> Cluster:
    cluster = replace(template, directory=directory)
    _rewrite(cluster, lambda text: text.replace(str(template.directory), str(directory)))
    return cluster


def _rewrite(cluster: Cluster, change: Callable[[str], str]) -> None:
    file = cluster.data / "postgresql.conf"
    file.write_text(change(file.read_text(encoding="utf-8")), encoding="utf-8")


@contextmanager
def side_by_side(
    template: Cluster,
    sides: Mapping[str, Mapping[str, str]],
    *,
    place: Path,
    memory: Bytes | None = None,
    volume: Volume | None = None,
    iops: int | None = None,
    huge_pages_for: str | None = None,
) -> Iterator[Mapping[str, Standing]]:
    """A running server for each side, with its settings, on a copy of the template in `place`.

    The template itself becomes the last side's; all data are removed at the end.
    `memory` [bytes] limits each server, its page cache included; `iops` caps the reads and the
    writes per second of the volume that `place` lies on. The side `huge_pages_for` is started on
    huge pages reserved for it, if this user may reserve them and the kernel finds them; they are
    released at the end. Raises ConnectError for a server that does not start.
    """
    with ExitStack() as stack:
        made: dict[str, Standing] = {}
        stack.callback(_remove, [place / name for name in sides])
        *others, last = sides
        clusters = {name: copied(template, place / name) for name in others}
        clusters[last] = _moved(template, place / last)
        if memory is not None:
            for cluster in clusters.values():
                evict(cluster.directory)
        for name in sorted(sides, key=lambda name: name != huge_pages_for):
            cluster = clusters[name]
            cluster.configure({**sides[name], "port": cluster.port})
            if name == huge_pages_for:
                stack.enter_context(instance.huge_pages(_huge_pages_needed(cluster)))
            group = stack.enter_context(instance.limits(name, memory, volume, iops))
            stack.enter_context(guard.server_stopped(cluster.data))
            with instance.inside(group):
                cluster.start()
            stack.callback(cluster.stop, "immediate")
            made[name] = Standing(name, cluster)
        if volume is not None and iops is not None:
            stack.enter_context(instance.throttled(volume, iops))
        yield {name: made[name] for name in sides}


def evict(directory: Path) -> None:
    """Drop files from the page cache: pages that we read do not count towards a server's limit."""
    for at, _, names in os.walk(directory):
        for name in names:
            file = os.open(Path(at, name), os.O_RDONLY)
            try:
                os.fsync(file)  # dirty pages would stay
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


def _remove(directories: Sequence[Path]) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def on_huge_pages(server: Standing) -> bool:
    """Whether its shared memory is on huge pages; False if unknown, as before 17."""
    from psycopg import Error

    try:
        with connect(server.dsn) as session:
            row = session.execute("SELECT current_setting('huge_pages_status', true)").fetchone()
    except (MrTunerError, Error):
        return False
    return row is not None and row[0] == "on"


def _huge_pages_needed(cluster: Cluster) -> int:
    """Number of huge pages that the server says it needs; 0 if unknown, as before 15."""
    done = cluster.run("postgres", "-C", "shared_memory_size_in_huge_pages", "-D", cluster.data)
    text = done.stdout.strip()
    return int(text) if done.returncode == 0 and text.isdecimal() else 0
