"""io_uring: never advised, left where it is in use, with the reason why not on this server."""

from __future__ import annotations

from typing import Any

import pytest

from mrtuner.host.model import IoUring
from mrtuner.inputs import Workload
from mrtuner.tuning.feasibility import solve
from mrtuner.tuning.situation import Connections, Cpus, Situation
from mrtuner.units import Bytes, KiB

HAS = {"io_method": ("sync", "worker", "io_uring")}
LACKS = {"io_method": ("sync", "worker")}


def live(running: dict[str, str], major: int = 18, **facts: Any) -> Situation:
    return Situation(
        major=major, workload=Workload.OLTP, connections=Connections(20), cpus=Cpus(32),
        running=running, origins=dict.fromkeys(running, "file"), **facts,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "seen", "because"),
    [
        (LACKS, None, "this build lacks it"),
        (HAS, None, "`worker` works everywhere"),
        (HAS, IoUring(disabled=0, seccomp=0), "`worker` works everywhere"),
        (HAS, IoUring(disabled=2, seccomp=0), "kernel.io_uring_disabled = 2 restricts it"),
        (HAS, IoUring(seccomp=2), "a system call filter is in force"),
        # With 100 connections, 18.6 starts with a limit of 1,144 kB, and not with 1,140 kB.
        (HAS, IoUring(locked_memory=Bytes(1144 * KiB)), "`worker` works everywhere"),
        (HAS, IoUring(locked_memory=Bytes(1140 * KiB)), "but its rings take 1.12 MB"),
        (HAS, IoUring(locked_memory=Bytes(64 * KiB)), "64 kB here, but its rings take 1.12 MB"),
    ],
)
def test_what_is_against_io_uring_is_named(
    words: dict[str, tuple[str, ...]], seen: IoUring | None, because: str
) -> None:
    item = solve(live({"io_method": "worker"}, enum_values=words, io_uring=seen)).advice[
        "io_method"
    ]
    assert item.to_dict()["verdict"] == "keep"
    assert item.reason.startswith("no measurement shows a gain of io_uring")
    assert because in item.reason


@pytest.mark.parametrize(
    ("major", "name", "now"), [(18, "io_workers", "3"), (19, "io_max_workers", "8")]
)
def test_workers_are_not_advised_where_none_run(major: int, name: str, now: str) -> None:
    """A quarter of 32 CPUs would be 8 workers, half of them 16."""
    uring = live({"io_method": "io_uring", name: now}, major, enum_values=HAS)
    assert solve(uring).advice[name].to_dict()["verdict"] == "keep"
    workers = live({"io_method": "worker", name: now}, major, enum_values=HAS)
    assert solve(workers).advice[name].to_dict()["verdict"] == "change"


def test_the_processors_clock_of_19_is_fast_wherever_the_server_runs() -> None:
    """From afar the kernel's clock is not known, but 19 says which clock it reads."""
    here = {"track_io_timing": "off", "timing_clock_source": "auto (tsc)"}
    assert solve(live(here, 19)).advice["track_io_timing"].value == "on"
    system = here | {"timing_clock_source": "auto (system)"}
    assert solve(live(system, 19)).advice["track_io_timing"].to_dict()["verdict"] == "unknown"
