"""What kind of storage a directory is on.

The search goes from the path to its filesystem (mountinfo), to the block device (/sys/dev/block),
and through partitions, LVM, RAID and loop devices down to whole disks. The slowest of several
counts. An emulated disk often claims to rotate, which proves nothing, so the answer is then
Missing, not HDD. Source: the kernel's Documentation/ABI/stable/sysfs-block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mrtuner.facts import Fact, Missing
from mrtuner.host.mounts import Mount, MountedPath, place_of
from mrtuner.host.tree import Tree, names_in, text_of
from mrtuner.inputs import Storage

Kind = Fact[Storage] | Missing

#: A loop device on a file on a loop device …: no one stacks them deeper than this on purpose.
MOST_LOOPS = 4

NETWORK_FILESYSTEMS = frozenset(
    [
        "nfs", "nfs4", "ceph", "glusterfs", "cifs", "smb3", "smbfs", "9p", "virtiofs", "lustre",
        "gpfs", "beegfs", "afs",
    ]
)  # fmt: skip
OVERLAYS = frozenset(["overlay", "aufs", "fuse.fuse-overlayfs"])
IN_MEMORY = frozenset(["tmpfs", "ramfs", "rootfs"])

#: In order of latency, longest first.
SLOWEST_FIRST = (
    Storage.HDD, Storage.OVERLAY, Storage.NETWORK, Storage.EBS, Storage.SSD, Storage.NVME,
)  # fmt: skip

#: Disks that identify themselves, as "vendor model" in sysfs; the first match counts.
#: Sources: AWS "Amazon EBS and NVMe"; Google "Symbolic links for disk devices"; Microsoft
#: "SCSI to NVMe conversion"; the /dev/disk/by-id names of the smaller clouds' volumes.
MODELS: tuple[tuple[re.Pattern[str], Storage], ...] = (
    (re.compile(r"Amazon Elastic Block Store"), Storage.EBS),
    (re.compile(r"Amazon EC2 NVMe Instance Storage"), Storage.NVME),
    (re.compile(r"^Google PersistentDisk|nvme_card-pd$"), Storage.NETWORK),
    (re.compile(r"^Google EphemeralDisk"), Storage.SSD),
    (re.compile(r"nvme_card\d*$"), Storage.NVME),
    (re.compile(r"MSFT NVMe Accelerator"), Storage.NETWORK),
    (re.compile(r"Microsoft NVMe Direct Disk"), Storage.NVME),
    (re.compile(r"^ORACLE BlockVolume|^(DO|HC|Linode) Volume"), Storage.NETWORK),
)
EMULATED = re.compile(r"qemu|vbox|vmware|virtual|msft|xen", re.IGNORECASE)
AZURE_DISK = re.compile(r"Msft Virtual Disk")
#: The tag of every virtual machine in Azure, and no other. Source: cloud-init, DataSourceAzure.
AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """One whole disk, as sysfs describes it."""

    name: str  # sda, nvme0n1
    folder: str  # its real sysfs folder, whose path includes the buses and hosts above it
    model: str  # "vendor model", or whichever of them exists
    transports: frozenset[str]  # for NVMe: pcie, tcp, rdma, fc
    rotational: str | None  # "0" or "1"


def storage(tree: Tree, place: MountedPath) -> Kind:
    """Return the kind of storage of a place; Missing, with the reason, if nothing proves it."""
    kind = _kind_at(tree, place, MOST_LOOPS)
    if isinstance(kind, Missing):
        return kind
    return Fact(kind.value, f"{place.path} is on {kind.source}")


def _kind_at(tree: Tree, place: MountedPath, loops: int) -> Kind:
    mount = place.mount
    if mount is None:
        return _unknown(f"no mount table shows which file system {place.path} is on")
    told = _kind_of_filesystem(mount, place.path)
    if told is not None:
        return told
    devices = block_devices(tree, mount)
    if not devices:
        return _unknown(f"the devices below {mount.fstype} on {mount.point} are not visible")
    disks = [disk for device in devices for disk in whole_disks(device)]
    return _slowest([_kind_below(tree, disk, loops) for disk in disks])


def _unknown(why: str) -> Missing:
    return Missing("storage", why, "--storage")


def _kind_of_filesystem(mount: Mount, path: PurePosixPath) -> Kind | None:
    """What the filesystem alone shows; None if its device decides."""
    source = f"{mount.fstype} (mountinfo)"
    if mount.fstype in OVERLAYS:
        return Fact(Storage.OVERLAY, source)
    if mount.fstype in NETWORK_FILESYSTEMS or mount.fstype.startswith("fuse."):
        return Fact(Storage.NETWORK, source)
    if mount.fstype in IN_MEMORY:
        return _unknown(f"{path} is on {mount.fstype}: in memory, not on storage")
    return None


def block_devices(tree: Tree, mount: Mount) -> list[Path]:
    """The sysfs folders of the block devices that hold a filesystem."""
    if mount.fstype == "btrfs":
        return _btrfs_devices(tree, mount)
    device = tree.at(f"/sys/dev/block/{mount.device}")
    return [device] if device.exists() else []


def _btrfs_devices(tree: Tree, mount: Mount) -> list[Path]:
    """The members of a btrfs, listed under /sys/fs/btrfs: it has its own device number."""
    name = tree.at(mount.source).resolve().name
    everywhere = tree.at("/sys/fs/btrfs")
    for filesystem in names_in(everywhere):
        members = everywhere / filesystem / "devices"
        if name in names_in(members):
            return [members / member for member in names_in(members)]
    named = tree.at(f"/sys/class/block/{name}")
    return [named] if named.exists() else []


def whole_disks(device: Path) -> Iterator[Path]:
    """The disks at the bottom of a block device: a partition's parent, every slave of a stack."""
    device = device.resolve()
    if (device / "partition").exists():
        device = device.parent
    slaves = names_in(device / "slaves")
    for slave in slaves:
        yield from whole_disks(device / "slaves" / slave)
    if not slaves:
        yield device


def _slowest(kinds: Iterable[Kind]) -> Kind:
    """The slowest disk's kind; unknown if a disk is, unless another is of the slowest kind."""
    known: list[Fact[Storage]] = []
    unknown: list[Missing] = []
    for kind in kinds:
        known.append(kind) if isinstance(kind, Fact) else unknown.append(kind)
    known.sort(key=lambda fact: SLOWEST_FIRST.index(fact.value))
    if unknown and (not known or known[0].value is not SLOWEST_FIRST[0]):
        return unknown[0]
    return known[0]


def _kind_below(tree: Tree, folder: Path, loops: int) -> Kind:
    """The kind of one whole disk, or of the filesystem that holds a loop device's file."""
    backing = text_of(folder / "loop" / "backing_file")
    if backing is None:
        return kind_of_disk(describe(folder), ec2=on_ec2(tree), azure=on_azure(tree))
    if not loops:
        return _unknown(f"{folder.name} is a loop device on top of too many others")
    return _kind_at(tree, place_of(tree, PurePosixPath(backing)), loops - 1)


def describe(folder: Path) -> Disk:
    """Read one disk's sysfs folder."""
    words = (text_of(folder / "device" / "vendor"), text_of(folder / "device" / "model"))
    transports = {text_of(path) for path in _transport_files(folder / "device")}
    return Disk(
        name=folder.name,
        folder=str(folder),
        model=" ".join(" ".join(filter(None, words)).split()),
        transports=frozenset(filter(None, transports)),
        rotational=text_of(folder / "queue" / "rotational"),
    )


def _transport_files(device: Path) -> Iterator[Path]:
    """Files that tell an NVMe disk's transport: its controller's or, with multipath, several."""
    yield device / "transport"
    for name in names_in(device):
        if re.fullmatch(r"nvme\d+", name):
            yield device / name / "transport"


def kind_of_disk(disk: Disk, *, ec2: bool, azure: bool) -> Kind:
    """Classify one whole disk: by its model, then by its attachment, then by rotation."""
    for pattern, kind in MODELS:
        if pattern.search(disk.model):
            return Fact(kind, f"{disk.name}: model {disk.model}")
    if azure and AZURE_DISK.search(disk.model):
        return Fact(Storage.NETWORK, f"{disk.name}: {disk.model} on Azure")
    if disk.name.startswith("xvd"):
        return _kind_on_xen(disk, ec2)
    if re.match(r"z?ram\d", disk.name):
        return _unknown(f"{disk.name} is memory, not storage")
    return _remote(disk) or _local(disk)


def _kind_on_xen(disk: Disk, ec2: bool) -> Kind:
    """A Xen disk's kind. The driver calls all non-rotational, so only the cloud's name helps."""
    if ec2:
        return Fact(Storage.EBS, f"{disk.name}: Xen block device on Amazon EC2")
    return _unknown(f"{disk.name} is a Xen block device, which hides the underlying storage")


def _remote(disk: Disk) -> Fact[Storage] | None:
    fabric = disk.transports - {"pcie"}
    if fabric:
        return Fact(Storage.NETWORK, f"{disk.name}: NVMe over {', '.join(sorted(fabric))}")
    if re.match(r"(rbd|nbd)\d", disk.name):
        return Fact(Storage.NETWORK, f"{disk.name}: network block device")
    if "/session" in disk.folder:
        return Fact(Storage.NETWORK, f"{disk.name}: iSCSI")
    if "/rport-" in disk.folder:
        return Fact(Storage.NETWORK, f"{disk.name}: Fibre Channel")
    return None


def _local(disk: Disk) -> Kind:
    emulated = (
        bool(EMULATED.search(disk.model)) or "/virtio" in disk.folder or disk.name[:2] == "vd"
    )
    if disk.name.startswith("nvme"):
        if emulated:
            return _unknown(
                f"{disk.name} is emulated ({disk.model}): it hides the underlying storage"
            )
        return Fact(Storage.NVME, f"{disk.name}: NVMe {disk.model}".rstrip())
    if disk.rotational == "0":
        return Fact(Storage.SSD, f"{disk.name}: queue/rotational is 0")
    if disk.rotational is None or emulated:
        return _unknown(_undecided(disk))
    return Fact(Storage.HDD, f"{disk.name}: queue/rotational is 1")


def _undecided(disk: Disk) -> str:
    if disk.rotational is None:
        return f"{disk.name} does not report whether it rotates"
    return f"{disk.name} is virtual, and virtual disks report being rotational whatever they are"


def on_ec2(tree: Tree) -> bool:
    """Whether this is Amazon EC2. Source: EC2 guide, "Detect whether a host is an EC2 instance"."""
    uuid = tree.peek("/sys/hypervisor/uuid") or ""
    return uuid.lower().startswith("ec2") or any(
        "amazon" in (tree.peek(f"/sys/class/dmi/id/{file}") or "").lower()
        for file in ("sys_vendor", "bios_version", "bios_vendor")
    )


def on_azure(tree: Tree) -> bool:
    """Whether this is a virtual machine in Azure rather than on some other Hyper-V."""
    return tree.peek("/sys/class/dmi/id/chassis_asset_tag") == AZURE_TAG
