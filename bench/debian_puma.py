"""Puma of another Debian release: sid has 8, trixie 6.6, bookworm 5.6.

    python bench/servers_waiting.py --puma-of sid --only puma     # as root, with debootstrap

The release is installed once into .cache/debian and Puma runs there by chroot, in a mount namespace
of its own, with the same CPUs, control groups and network as without.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from shlex import quote

from application_servers import APPS

RELEASES = Path(__file__).parents[1] / ".cache/debian"
_PACKAGES = "puma,ruby,ruby-pg"


def put_first_in_path(release: str) -> None:
    """Make `puma` run the release's Puma for the rest of this process; install it if needed."""
    root = RELEASES / release
    if not (root / "usr/bin/puma").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", release, str(root)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wrapper = RELEASES / f"{release}-bin/puma"
    wrapper.parent.mkdir(exist_ok=True)
    wrapper.write_text(_wrapper(root))
    wrapper.chmod(0o755)
    os.environ["PATH"] = f"{wrapper.parent}:{os.environ['PATH']}"


def _wrapper(root: Path) -> str:
    """Return a script that runs Puma inside; apps and temporary files keep their paths."""
    steps = [
        f"mkdir -p {quote(f'{root}{folder}')} && mount --bind {quote(folder)} "
        f"{quote(f'{root}{folder}')}"
        for folder in (str(APPS), tempfile.gettempdir())
    ]
    steps += [f"mount -t proc proc {quote(f'{root}/proc')}"]
    steps += [f'exec chroot {quote(str(root))} /usr/bin/puma "$@"']
    inside = " && ".join(steps)
    alone = "unshare --mount --propagation unchanged"
    return f'#!/bin/sh\nexec {alone} sh -c {quote(inside)} puma "$@"\n'
