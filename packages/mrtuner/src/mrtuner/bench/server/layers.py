"""Data on an overlay file system, as container engines put it under a container.

    overlay   the data are made in the writable layer
    layer     the data lie in a read-only layer, as in an image: the first write to a file copies
              all of it to a fresh writable layer

We mount it as an engine does, on the file system where the other variants' data lie: otherwise
disks would be compared. Linux, as root. Source: Linux, Documentation/filesystems/overlayfs.rst.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from mrtuner.bench.server import guard
from mrtuner.bench.server.commands import run
from mrtuner.errors import MissingPart

_HINT: Final = 'Leave out storage, or run as root on Linux: storage = "volume" needs nothing.'
_run: Final = partial(run, hint=_HINT)


def require() -> None:
    """MissingPart where no overlay can be mounted."""
    known = Path("/proc/filesystems")
    if not known.exists() or "overlay" not in known.read_text(encoding="ascii").split():
        raise MissingPart("this kernel does not support overlay file systems", _HINT)
    if os.geteuid() != 0:
        raise MissingPart("mounting an overlay needs root", _HINT)


@contextmanager
def fresh(base: Path) -> Iterator[Path]:
    """An empty directory whose files are created in a writable layer; unmounted at the end."""
    lower, place = base / "lower", base / "overlay"
    for directory in (lower, place):
        directory.mkdir(mode=0o755)
    with mounted(lower, place, base):
        yield place


@contextmanager
def mounted(lower: Path, place: Path, base: Path) -> Iterator[None]:
    """Show `lower`, read-only, and a fresh writable layer over it at `place` during the block."""
    require()
    upper, work = base / "upper", base / "work"
    for directory in (upper, work):
        directory.mkdir()
    # The owner and mode of the merged directory are those of the upper one.
    known = lower.stat()
    os.chown(upper, known.st_uid, known.st_gid)
    upper.chmod(known.st_mode & 0o7777)
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    try:
        _run("mount", "-t", "overlay", "overlay", "-o", options, str(place))
        try:
            # Lazily: if we are killed, a server may still run in there.
            with guard.command_run(["umount", "--lazy", str(place)]):
                yield
        finally:
            _run("umount", str(place))
    finally:
        for directory in (upper, work):
            shutil.rmtree(directory, ignore_errors=True)
