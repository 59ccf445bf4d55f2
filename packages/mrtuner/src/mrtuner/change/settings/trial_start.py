"""A trial start on the server's own machine: its programs, the settings of its next start.

`postgres --single` on a new, empty data directory loads the libraries and allocates shared memory,
semaphores and io_uring as a start does, but listens nowhere, starts no worker and reads nothing of
the server's data. Huge pages are counted instead of tried, because the running server holds its own
until it stops.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.change.settings.next_start import NextStart
from mrtuner.errors import MrTunerError
from mrtuner.facts import Fact
from mrtuner.host.memory import huge_pages, meminfo, memory
from mrtuner.host.tree import Tree
from mrtuner.postgres.binaries import Binaries, find_binaries
from mrtuner.postgres.cluster import Cluster, reason_in
from mrtuner.postgres.connect import translated
from mrtuner.postgres.local import postmaster_of
from mrtuner.postgres.secret_settings import is_secret
from mrtuner.postgres.server_user import run_as, scratch_directory
from mrtuner.units import PAGE, KiB, MiB, pretty_bytes

if TYPE_CHECKING:
    from mrtuner.host.model import HugePages
    from mrtuner.postgres.connect import Connection

#: A start without data takes less than a second; io_uring for thousands of processes a few [s].
_PATIENCE: Final = 30.0
#: A start touches the descriptors and the hash table of shared_buffers, 1.5 % of them, and no more.
_TOUCHED: Final = 0.03
_REST: Final = 256 * MiB
#: Parameters of a place, an identity or a recovery: a trial has its own, or none.
_OF_THIS_SERVER: Final = frozenset({
    "config_file", "data_directory", "event_source", "external_pid_file", "hba_file", "huge_pages",
    "ident_file", "listen_addresses", "logging_collector", "port", "unix_socket_directories",
    "unix_socket_group", "unix_socket_permissions",
})  # fmt: skip
#: The name of a setting, and its value.
Option = tuple[str, str]
#: Limits that a service manager sets for the server: in /proc/PID/limits, and for `ulimit`.
_LIMITS: Final = (("Max locked memory", "-l", KiB), ("Max open files", "-n", 1))


class NotTried(Exception):
    """There is no trial start; carries the reason."""


@dataclass(frozen=True, slots=True)
class Here:
    """A server on this machine: its postmaster and its programs."""

    pid: int
    binaries: Binaries


def here(conn: Connection) -> Here:
    """Find the server's programs by its process. Raises NotTried."""
    with translated():
        pid = postmaster_of(conn)
    if pid is None:
        raise NotTried("the server runs on another machine")
    try:
        binaries = find_binaries(Path(f"/proc/{pid}/exe").readlink().parent)
    except (OSError, MrTunerError):
        raise NotTried("the server's programs cannot be run from here") from None
    if binaries.version != (conn.info.parameter_status("server_version") or "").split()[0]:
        raise NotTried("the server's programs have been replaced since it started")
    return Here(pid, binaries)


def start_fails(server: Here, start: NextStart) -> str | None:
    """The server's own reason why it would not start; None if it would. Raises NotTried."""
    buffers = start.number("shared_buffers") * PAGE
    total = memory(Tree(pid=server.pid))[0]
    if isinstance(total, Fact) and buffers > total.value:
        return f"shared_buffers are more than the memory here, {pretty_bytes(total.value)}"
    available = meminfo(Tree()).get("MemAvailable", 0) * KiB
    if buffers * _TOUCHED + _REST > available:
        raise NotTried("there is too little free memory for a trial")
    done = _single_user(server, tuple(_options(start)))
    return None if done.returncode == 0 else reason_in(done.stderr)


def pages_needed(server: Here, start: NextStart) -> int:
    """The huge pages that the server would ask for; before 15, those of shared_buffers alone."""
    if start.major < 15:
        return ceil(start.number("shared_buffers") * PAGE / _huge_pages(server, start).size)
    done = _in_scratch(server, ("-C", "shared_memory_size_in_huge_pages"), tuple(_options(start)))
    if done.returncode != 0:
        raise NotTried(reason_in(done.stderr))
    return int(done.stdout.split()[-1])


def pages_available(server: Here, start: NextStart) -> int:
    """The huge pages that are free once the server has stopped. Raises NotTried."""
    pages = _huge_pages(server, start)
    return pages.unclaimed + _held(server.pid, pages)


def _huge_pages(server: Here, start: NextStart) -> HugePages:
    """The huge pages of the size that the server asks for; 0 is the default size."""
    found = huge_pages(Tree(pid=server.pid), start.number("huge_page_size") * KiB)
    if isinstance(found, Fact):
        return found.value
    raise NotTried(found.why)


def _held(pid: int, pages: HugePages) -> int:
    """The huge pages of the running server's shared memory. Source: proc(5), smaps."""
    try:
        text = Path(f"/proc/{pid}/smaps").read_text()
    except OSError:
        raise NotTried("this user may not see the memory of the server's process") from None
    mapped = re.findall(r"^Size: +(\d+) kB\nKernelPageSize: +(\d+) kB", text, re.MULTILINE)
    kilobytes = sum(int(size) for size, page in mapped if int(page) * KiB == pages.size)
    return kilobytes * KiB // pages.size


def _options(start: NextStart) -> Iterator[Option]:
    """What differs from the defaults, of the settings that matter at a start."""
    yield "huge_pages", "off"
    for name, row in sorted(start.running.items()):
        set_somewhere = name in start.changed or row.source not in ("default", "override")
        at_start = row.context == "postmaster" or name == "dynamic_library_path"
        elsewhere = name in _OF_THIS_SERVER or name.startswith("recovery_target")
        if set_somewhere and at_start and not elsewhere:
            yield name, start.text(name)


@cache
def _single_user(server: Here, options: tuple[Option, ...]) -> subprocess.CompletedProcess[str]:
    """Once for the same settings, however often a measurement changes back and forth."""
    return _in_scratch(server, ("--single",), options, "postgres")


def _in_scratch(
    server: Here, mode: tuple[str, ...], options: tuple[Option, ...], *database: str
) -> subprocess.CompletedProcess[str]:
    """Run `postgres` on a new data directory, under the limits of the server's process.

    What may be a secret goes into its configuration file: command lines are public.
    """
    directory = scratch_directory()
    try:
        secrets = {name: value for name, value in options if is_secret(name)}
        cluster = Cluster.create(server.binaries, directory, secrets)
        command: list[str | Path] = ["sh", "-c", f'{_limits(server.pid)}exec "$@"', "sh"]
        command += [cluster.binaries.program("postgres"), *mode, "-D", cluster.data]
        for name, value in options:
            if name not in secrets:
                command += ["-c", f"{name}={value}"]
        command += database
        return run_as(cluster.user, command, cluster.directory, timeout=_PATIENCE)
    except (MrTunerError, OSError, subprocess.TimeoutExpired) as error:
        raise NotTried(f"the trial did not come about: {error}") from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _limits(pid: int) -> str:
    """Shell commands that set the limits of the server's process, where they can be set."""
    try:
        text = Path(f"/proc/{pid}/limits").read_text()
    except OSError:
        return ""
    return "".join(
        f"ulimit {flag} {int(found[1]) // unit} 2>/dev/null || :; "
        for name, flag, unit in _LIMITS
        if (found := re.search(rf"^{name} +(\d+) ", text, re.MULTILINE))
    )
