"""What this machine really has: memory and CPUs as far as we may use them, and its storage.

    probe("/") ─ tree      the files of /proc and /sys, and the process they are asked about
                 ├ mounts    mountinfo            ┬ cgroup   the groups above the process
                 │                                ├ memory   RAM, limits, swap, huge pages
                 │                                └ cpus     online, cpuset, affinity, quota
                 └ storage, disk   where the data directory is

Every fact has its source; what could not be read is None and listed in `missing`.
"""

from __future__ import annotations

from pathlib import Path

from mrtuner.host.model import Host, HugePages

__all__ = ["Host", "HugePages", "probe"]


def probe(
    root: Path = Path("/"), *, pid: int | None = None, data_directory: Path | None = None
) -> Host:
    """Read one machine or container. Never fails, but may learn little.

    `pid` is the process whose cgroups, CPU set and mounts count (a live postmaster); None: this
    process. `data_directory` is the path whose storage counts, as that process sees it; None:
    ``/``. `root` contains another machine's /proc and /sys; then only files are read.
    """
    # Import the readers only to read a machine: a described one needs none of them.
    from mrtuner.host import probing

    return probing.probe(root, pid=pid, data_directory=data_directory)
