"""The host of a server, as a source: CPU, pressure, memory, disk and network, of this machine only.

The counters are the kernel's own, as the postmaster sees them, so in a container they are those of
its control group and network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final

from mrtuner.facts import Fact
from mrtuner.history.recording.program import OwnProgram, Place, Rows
from mrtuner.host.counters import (
    OwnGroups,
    available_memory,
    boot_time,
    context_switches,
    cpu_times,
    default_interface,
    group_usage,
    own_groups,
    pressure,
    traffic,
)
from mrtuner.host.cpus import cpus
from mrtuner.host.devices import Device, counted, layers
from mrtuner.host.tree import Tree

_DECLARATION: Final = """
help = "The server's host, if the recorder runs on it"
interval = "15s"
reset = "scope"

[counters]
cpu_user = {type = "float", unit = "s", help = "CPU time of programs, of all CPUs"}
cpu_system = {type = "float", unit = "s", help = "CPU time of the kernel, interrupts included"}
cpu_iowait = {type = "float", unit = "s", help = "idle CPU time while waiting for a disk"}
cpu_steal = {type = "float", unit = "s", help = "CPU time taken by the hypervisor"}
cpu_idle = {type = "float", unit = "s", help = "idle CPU time"}
waited_cpu = {type = "float", unit = "s", help = "time during which some task waited for a CPU"}
waited_io = {type = "float", unit = "s", help = "time during which some task waited for I/O"}
waited_memory = {type = "float", unit = "s", help = "time during which some task waited for memory"}
context_switches = {help = "context switches"}
disk_reads = {help = "reads requested from the data directory's disk"}
disk_writes = {help = "writes requested from it"}
disk_read_bytes = {unit = "bytes", help = "read from it"}
disk_written_bytes = {unit = "bytes", help = "written to it"}
disk_read_time = {type = "float", unit = "s", help = "total time of the reads"}
disk_write_time = {type = "float", unit = "s", help = "total time of the writes"}
disk_queued_time = {type = "float", unit = "s", help = "waiting requests multiplied by time"}
received_bytes = {unit = "bytes", help = "received from the network"}
sent_bytes = {unit = "bytes", help = "sent to the network"}
group_cpu = {type = "float", unit = "s", help = "CPU time of the server's control group"}
group_throttled = {type = "float", unit = "s", help = "time for which its CPU quota throttled it"}

[gauges]
cpus = {help = "CPUs that the server can use: all of them, or its quota rounded up"}
memory_available = {unit = "bytes", help = "memory available to programs without swapping"}
group_memory = {unit = "bytes", help = "memory of the server's control group, page cache included"}

[texts]
device = {help = "the disk of the data directory"}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What the samples of a connection read; found once, since it does not change."""

    tree: Tree
    device: Device | None
    interface: str | None
    groups: OwnGroups
    cpus: int | None
    booted: int | None


def _open(place: Place) -> Rows | None:
    """Find the server's disk and network interface; None if it runs elsewhere."""
    if place.postmaster is None:
        return None
    tree = Tree(pid=place.postmaster)
    given = place.data_directory
    directory = PurePosixPath(given) if given else tree.working_directory()
    devices = layers(tree, directory) if directory else ()
    usable, _ = cpus(tree)
    found = _Found(
        tree=tree,
        device=devices[0] if devices else None,
        interface=default_interface(tree),
        groups=own_groups(tree),
        cpus=usable.value if isinstance(usable, Fact) else None,
        booted=boot_time(tree),
    )
    return partial(_rows, found)


HOST: Final = OwnProgram(_DECLARATION, _open, of_machine=True)  # its own identity is `scope`


def _rows(of: _Found) -> Iterable[Mapping[str, Any]]:
    tree, device, interface = of.tree, of.device, of.interface
    times, disk = cpu_times(tree), None if device is None else counted(tree, device)
    carried = None if interface is None else traffic(tree, interface)
    row: dict[str, Any] = {
        "scope": f"{of.booted} {device} {interface}",
        "context_switches": context_switches(tree),
        "cpus": of.cpus,
        "memory_available": available_memory(tree),
        "device": None if device is None else device.name,
    }
    if times is not None:
        row |= {
            "cpu_user": times.user,
            "cpu_system": times.system + times.interrupts,
            "cpu_iowait": times.iowait,
            "cpu_steal": times.steal,
            "cpu_idle": times.idle,
        }
    row |= {f"waited_{name}": seconds for name, seconds in pressure(tree).items()}
    row |= {f"group_{name}": used for name, used in asdict(group_usage(tree, of.groups)).items()}
    if disk is not None:
        row |= {f"disk_{name}": counter for name, counter in asdict(disk).items()}
    if carried is not None:
        row |= {"received_bytes": carried.received, "sent_bytes": carried.sent}
    yield {name: row.get(name) for name in _NAMES}


#: Every column of the declaration, and `scope`, which changes when the counters start again.
_NAMES: Final = ("scope", *re.findall(r"^(\w+) = \{", _DECLARATION, re.MULTILINE))
