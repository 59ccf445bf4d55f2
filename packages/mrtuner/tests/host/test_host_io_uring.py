"""What is in the way of io_uring, read from small trees of /proc."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrtuner.facts import Fact
from mrtuner.history.recorded.machine import host_of
from mrtuner.history.recording.machine import rows_of_host
from mrtuner.host import probe
from mrtuner.host.model import IoUring
from mrtuner.units import Bytes

LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max open files            1024                 524288               files
Max locked memory         {}             8388608              bytes"""


def tree(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/sys/kernel/io_uring_disabled": "2"}, IoUring(disabled=2)),
        ({"proc/77/status": "Name:\tpostgres\nSeccomp:\t2"}, IoUring(seccomp=2)),
        (
            {"proc/77/status": "Seccomp:\t0", "proc/77/limits": LIMITS.format(65536)},
            IoUring(seccomp=0, locked_memory=Bytes(65536)),
        ),
        (
            {"proc/77/status": "Seccomp:\t0", "proc/77/limits": LIMITS.format("unlimited")},
            IoUring(seccomp=0),
        ),
    ],
)  # fmt: skip
def test_the_kernel_the_filter_and_the_limit_are_read(
    tmp_path: Path, files: dict[str, str], expected: IoUring | None
) -> None:
    fact = probe(tree(tmp_path, files), pid=77).io_uring
    assert (fact.value if fact else None) == expected


def test_a_recorded_machine_gives_it_back(tmp_path: Path) -> None:
    host = probe(tree(tmp_path, {
        "proc/sys/kernel/io_uring_disabled": "1", "proc/77/status": "Seccomp:\t0",
        "proc/sys/kernel/osrelease": "6.6.0", "proc/77/limits": LIMITS.format(65536),
    }), pid=77)  # fmt: skip
    rows = {row["name"]: Fact(row["value"], row["origin"]) for row in rows_of_host(host)}
    read = host_of(rows)
    assert read is not None
    assert read.io_uring is not None
    assert read.io_uring.value == IoUring(disabled=1, seccomp=0, locked_memory=Bytes(65536))
