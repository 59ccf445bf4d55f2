"""The files, directories and addresses that a server opens when it starts.

A file is opened by the server itself, which takes a superuser; a directory and an address are tried
on the server's own machine. None stands for what cannot be found out from here.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from mrtuner.host.tree import real_path, text_of

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

#: Parameters of what a start opens, reads or asks the kernel for: a wrong value prevents it.
#: Source: postmaster.c, PostmasterMain; ipci.c; fd.c, set_max_safe_fds.
CAN_FAIL: Final = (
    "bonjour", "dynamic_shared_memory_type", "huge_page_size", "io_method", "listen_addresses",
    "logging_collector", "max_files_per_process", "min_dynamic_shared_memory",
    "port", "shared_memory_type", "unix_socket_directories", "unix_socket_group",
)  # fmt: skip
#: Their values that ask for nothing more than a start without them.
HARMLESS: Final = {
    "bonjour": "off", "huge_page_size": "0", "listen_addresses": "", "logging_collector": "off",
    "min_dynamic_shared_memory": "0", "unix_socket_directories": "", "unix_socket_group": "",
}  # fmt: skip


def commands(pid: int | None, name: str) -> bool:
    """Whether the command line of a postmaster here sets a parameter."""
    return pid is not None and name in (text_of(Path(f"/proc/{pid}/cmdline")) or "")


def opens(conn: Connection, path: str) -> bool | None:
    """Whether the server can open a file; only a superuser may ask."""
    from psycopg import Error

    if conn.info.parameter_status("is_superuser") != "on":
        return None
    try:  # nothing of it is read: it may be a key
        conn.execute("SELECT pg_read_binary_file(%s, 0, 0)", (path,))
    except Error as error:
        if conn.closed:
            raise
        return False if error.sqlstate in _NOT_OPENED else None
    return True


#: No such file, no permission, not a file.
_NOT_OPENED: Final = frozenset({"58P01", "42501", "42809"})


def may_write(pid: int | None, path: PurePosixPath, *, makes: bool = False) -> bool | None:
    """Whether the server, with this postmaster here, may create files in a directory.

    With `makes`, it makes the directory itself.
    """
    try:
        there, users, groups = _seen_by(pid, path)
        found = there.stat()
        if os.listxattr(there).count("system.posix_acl_access"):
            return None
    except FileNotFoundError:
        return may_write(pid, path.parent) if makes else False
    except OSError:
        return None
    if not stat.S_ISDIR(found.st_mode):
        return False
    shift = 6 if found.st_uid in users else 3 if found.st_gid in groups else 0
    return found.st_mode >> shift & 0o3 == 0o3


def is_private(pid: int | None, path: PurePosixPath) -> bool | None:
    """Whether the server takes a file for a key: nobody else may read it.

    Source: be-secure-common.c, check_ssl_key_file_permissions.
    """
    try:
        there, users, _ = _seen_by(pid, path)
        found = there.stat()
    except OSError:
        return None
    return not found.st_mode & (0o077 if found.st_uid in users else 0o037)


def _seen_by(pid: int | None, path: PurePosixPath) -> tuple[Path, set[int], set[int]]:
    """Where a path of the server's is for us; its user and groups. OSError if we may not look."""
    if pid is None or not path.is_absolute():
        raise PermissionError
    root = Path(f"/proc/{pid}/root")
    users, groups = (set(map(int, line)) for line in _ids(pid))
    return root / str(real_path(root, path)).lstrip("/"), users, groups


def _ids(pid: int) -> Iterator[list[str]]:
    """The user of a process, and its groups. Source: proc(5), status."""
    lines = dict(
        line.partition(":\t")[::2] for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    yield lines["Uid"].split()[1:2]
    yield lines["Gid"].split()[1:2] + lines["Groups"].split()


def may_listen(pid: int | None, addresses: Sequence[str]) -> bool | None:
    """Whether the machine has at least one of the addresses: the server starts with one.

    Names are not looked up.
    """
    if not addresses or "*" in addresses:
        return True
    try:
        if pid is None or not Path(f"/proc/{pid}/ns/net").samefile("/proc/self/ns/net"):
            return None
    except OSError:
        return None
    tried = [_has(one) for one in addresses]
    return True if True in tried else None if None in tried else False


def _has(address: str) -> bool | None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if address == "localhost":
        return True
    try:
        with socket.socket(family, socket.SOCK_STREAM) as one:
            one.bind((str(socket.getaddrinfo(address, 0, flags=socket.AI_NUMERICHOST)[0][4][0]), 0))
    except socket.gaierror:
        return None  # a name
    except OSError as error:
        return False if error.errno == errno.EADDRNOTAVAIL else None
    return True
