"""The storage of a directory: disks, stacks of disks, file systems, as small trees of sysfs."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from mrtuner.facts import Fact, Missing
from mrtuner.host import probe
from mrtuner.host.devices import layers
from mrtuner.host.disk import limited
from mrtuner.host.tree import Tree
from mrtuner.inputs import Storage
from mrtuner.units import Bytes, GiB
from shared import write

PCI = "/sys/devices/pci0000:00/0000:00:1f.0"


def link(root: Path, path: str, target: str) -> None:
    """A relative link, as sysfs makes them."""
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to("../" * (len(Path(path).parts) - 2) + target.lstrip("/"))


def disk(
    root: Path,
    name: str,
    number: str,
    *,
    rotational: int = 0,
    model: str | None = None,
    vendor: str | None = None,
    bus: str = f"{PCI}/ata1",
) -> str:
    """One block device; returns its sysfs folder."""
    folder = f"{bus}/block/{name}"
    write(root, f"{folder}/queue/rotational", rotational)
    if model:
        write(root, f"{folder}/device/model", f"{model}   ")
    if vendor:
        write(root, f"{folder}/device/vendor", f"{vendor}  ")
    (root / folder.lstrip("/") / "slaves").mkdir()
    link(root, f"/sys/dev/block/{number}", folder)
    return folder


def partition(root: Path, folder: str, number: str) -> str:
    inner = f"{folder}/{Path(folder).name}1"
    write(root, f"{inner}/partition", 1)
    link(root, f"/sys/dev/block/{number}", inner)
    return inner


def stack(root: Path, name: str, number: str, *below: str) -> str:
    """A device-mapper or md device on others."""
    folder = disk(root, name, number, bus="/sys/devices/virtual")
    for slave in below:
        link(root, f"{folder}/slaves/{Path(slave).name}", slave)
    return folder


def mounted(root: Path, *lines: str) -> None:
    write(root, "/proc/self/mountinfo", "\n".join(lines))


def mount(number: str, fstype: str = "ext4", point: str = "/", source: str = "/dev/sda1") -> str:
    return f"27 1 {number} / {point} rw,relatime shared:1 - {fstype} {source} rw"


def storage(root: Path, path: str = "/var/lib/postgresql") -> Fact[Storage] | str:
    """Return the fact, with its source but without the path; or the reason why there is none."""
    host = probe(root, data_directory=Path(path))
    if host.storage is not None:
        return Fact(host.storage.value, host.storage.source.partition(" is on ")[2])
    (missing,) = [each for each in host.missing if each.name == "storage"]
    assert missing.supply == "--storage"
    return missing.why


def test_an_ec2_nvme_volume_is_ebs(tmp_path: Path) -> None:
    whole = disk(tmp_path, "nvme0n1", "259:0", model="Amazon Elastic Block Store")
    partition(tmp_path, whole, "259:1")
    mounted(tmp_path, mount("259:1"))
    assert storage(tmp_path) == Fact(Storage.EBS, "nvme0n1: model Amazon Elastic Block Store")


def test_an_ec2_instance_store_is_nvme(tmp_path: Path) -> None:
    disk(tmp_path, "nvme1n1", "259:3", model="Amazon EC2 NVMe Instance Storage")
    mounted(tmp_path, mount("202:1"), mount("259:3", "xfs", "/var/lib/postgresql"))
    assert storage(tmp_path) == Fact(
        Storage.NVME, "nvme1n1: model Amazon EC2 NVMe Instance Storage"
    )


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("/sys/hypervisor/uuid", "ec2e1916-9099-7caf-fd21-012345abcdef"),
        ("/sys/class/dmi/id/bios_version", "4.11.amazon"),
    ],
)
def test_gp2_on_xvda_is_ebs_only_on_ec2(tmp_path: Path, file: str, text: str) -> None:
    partition(tmp_path, disk(tmp_path, "xvda", "202:0", bus="/sys/devices/vbd-768"), "202:1")
    mounted(tmp_path, mount("202:1"))
    assert storage(tmp_path) == ("xvda is a Xen block device, which hides the underlying storage")
    write(tmp_path, file, text)
    assert storage(tmp_path) == Fact(Storage.EBS, "xvda: Xen block device on Amazon EC2")


@pytest.mark.parametrize(
    ("name", "vendor", "model", "kind"),
    [
        ("sda", "Google", "PersistentDisk", Storage.NETWORK),
        ("sdb", "Google", "EphemeralDisk", Storage.SSD),
        ("nvme0n1", None, "nvme_card-pd", Storage.NETWORK),
        ("nvme0n2", None, "nvme_card0", Storage.NVME),
        ("nvme0n1", None, "MSFT NVMe Accelerator v1.0", Storage.NETWORK),
        ("nvme1n1", None, "Microsoft NVMe Direct Disk", Storage.NVME),
        ("sda", "DO", "Volume", Storage.NETWORK),
        ("sdb", "ORACLE", "BlockVolume", Storage.NETWORK),
    ],
)
def test_disks_of_clouds_say_who_they_are(
    tmp_path: Path, name: str, vendor: str | None, model: str, kind: Storage
) -> None:
    disk(tmp_path, name, "8:0", vendor=vendor, model=model, rotational=1)
    mounted(tmp_path, mount("8:0"))
    found = storage(tmp_path)
    assert isinstance(found, Fact)
    assert found.value is kind


def test_hyper_v_disks_are_network_volumes_only_in_azure(tmp_path: Path) -> None:
    disk(tmp_path, "sda", "8:0", vendor="Msft", model="Virtual Disk", rotational=1)
    mounted(tmp_path, mount("8:0"))
    assert "virtual" in str(storage(tmp_path))
    write(tmp_path, "/sys/class/dmi/id/chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77")
    assert storage(tmp_path) == Fact(Storage.NETWORK, "sda: Msft Virtual Disk on Azure")


def test_a_rotating_disk_is_hdd(tmp_path: Path) -> None:
    disk(tmp_path, "sda", "8:0", vendor="ATA", model="ST4000NM0035", rotational=1)
    mounted(tmp_path, mount("8:0"))
    assert storage(tmp_path) == Fact(Storage.HDD, "sda: queue/rotational is 1")


def test_a_sata_disk_that_does_not_rotate_is_ssd(tmp_path: Path) -> None:
    whole = disk(tmp_path, "sda", "8:0", vendor="ATA", model="INTEL SSDSC2KB96")
    partition(tmp_path, whole, "8:1")
    mounted(tmp_path, mount("8:1"))
    assert storage(tmp_path) == Fact(Storage.SSD, "sda: queue/rotational is 0")


def test_a_plain_nvme_disk_is_nvme(tmp_path: Path) -> None:
    disk(tmp_path, "nvme0n1", "259:0", model="SAMSUNG MZQL2960HCJR")
    mounted(tmp_path, mount("259:0"))
    assert storage(tmp_path) == Fact(Storage.NVME, "nvme0n1: NVMe SAMSUNG MZQL2960HCJR")


@pytest.mark.parametrize("where", ["device/transport", "device/nvme3/transport"])
def test_nvme_over_a_network_is_network(tmp_path: Path, where: str) -> None:
    folder = disk(tmp_path, "nvme0n1", "259:0", model="Linux")
    write(tmp_path, f"{folder}/{where}", "tcp")
    mounted(tmp_path, mount("259:0"))
    assert storage(tmp_path) == Fact(Storage.NETWORK, "nvme0n1: NVMe over tcp")


def test_an_iscsi_disk_is_network(tmp_path: Path) -> None:
    bus = "/sys/devices/platform/host3/session1/target3:0:0/3:0:0:1"
    disk(tmp_path, "sdc", "8:32", vendor="LIO-ORG", model="disk0", rotational=1, bus=bus)
    mounted(tmp_path, mount("8:32"))
    assert storage(tmp_path) == Fact(Storage.NETWORK, "sdc: iSCSI")


def test_lvm_over_a_rotating_and_a_solid_disk_is_as_slow_as_the_slower(tmp_path: Path) -> None:
    solid = partition(tmp_path, disk(tmp_path, "sda", "8:0"), "8:1")
    rotating = partition(tmp_path, disk(tmp_path, "sdb", "8:16", rotational=1), "8:17")
    stack(tmp_path, "dm-0", "253:0", solid, rotating)
    mounted(tmp_path, mount("253:0", "xfs", source="/dev/mapper/vg0-pg"))
    assert storage(tmp_path) == Fact(Storage.HDD, "sdb: queue/rotational is 1")


def test_encryption_on_raid_is_followed_down_to_the_disks(tmp_path: Path) -> None:
    disks = [disk(tmp_path, f"nvme{n}n1", f"259:{n}", model="PM9A3") for n in (0, 1)]
    raid = stack(tmp_path, "md0", "9:0", *disks)
    stack(tmp_path, "dm-3", "253:3", raid)
    mounted(tmp_path, mount("253:3"))
    assert storage(tmp_path) == Fact(Storage.NVME, "nvme0n1: NVMe PM9A3")


def test_one_unknown_disk_makes_the_stack_unknown(tmp_path: Path) -> None:
    known = disk(tmp_path, "nvme0n1", "259:0", model="PM9A3")
    unknown = disk(tmp_path, "vda", "254:0", rotational=1)
    stack(tmp_path, "dm-0", "253:0", known, unknown)
    mounted(tmp_path, mount("253:0"))
    assert "vda is virtual" in str(storage(tmp_path))


def test_a_virtio_disk_that_claims_to_rotate_proves_nothing(tmp_path: Path) -> None:
    bus = "/sys/devices/pci0000:00/0000:00:02.0/virtio1"
    disk(tmp_path, "vda", "254:0", rotational=1, vendor="0x1af4", bus=bus)
    mounted(tmp_path, mount("254:0"))
    host = probe(tmp_path)
    assert host.storage is None
    assert Missing(
        "storage",
        "vda is virtual, and virtual disks report being rotational whatever they are",
        "--storage",
    ) in host.missing  # fmt: skip


def test_an_emulated_nvme_disk_proves_nothing(tmp_path: Path) -> None:
    disk(tmp_path, "nvme0n1", "259:0", model="QEMU NVMe Ctrl")
    mounted(tmp_path, mount("259:0"))
    assert "emulated" in str(storage(tmp_path))


def test_overlay_is_overlay(tmp_path: Path) -> None:
    mounted(tmp_path, mount("0:50", "overlay", source="overlay"))
    assert storage(tmp_path, "/data") == Fact(
        Storage.OVERLAY, "overlay (mountinfo)"
    )  # fmt: skip


def test_a_volume_inside_a_container_is_what_its_disk_is(tmp_path: Path) -> None:
    disk(tmp_path, "sda", "8:0")
    volume = mount("8:0", point="/var/lib/postgresql/data")
    mounted(tmp_path, mount("0:50", "overlay"), volume)
    assert storage(tmp_path, "/var/lib/postgresql/data/base") == Fact(
        Storage.SSD, "sda: queue/rotational is 0"
    )


@pytest.mark.parametrize("fstype", ["nfs", "nfs4", "ceph", "cifs", "9p", "fuse.s3fs"])
def test_filesystems_behind_a_network_are_network(tmp_path: Path, fstype: str) -> None:
    mounted(tmp_path, mount("8:0"), mount("0:44", fstype, "/mnt/pg", "filer:/pg"))
    assert storage(tmp_path, "/mnt/pg/data") == Fact(Storage.NETWORK, f"{fstype} (mountinfo)")


def test_memory_is_no_storage(tmp_path: Path) -> None:
    mounted(tmp_path, mount("8:0"), mount("0:25", "tmpfs", "/dev/shm", "tmpfs"))
    why = "/dev/shm/pg is on tmpfs: in memory, not on storage"
    assert storage(tmp_path, "/dev/shm/pg") == why


def test_the_devices_of_zfs_are_not_visible(tmp_path: Path) -> None:
    mounted(tmp_path, mount("0:60", "zfs", "/tank", "tank/pg"))
    assert storage(tmp_path, "/tank") == "the devices below zfs on /tank are not visible"
    found = probe(tmp_path, data_directory=Path("/tank/data")).filesystem
    assert found == Fact("zfs", "mountinfo: /tank")
    assert probe(tmp_path).filesystem is None, "no data directory was named"


def test_the_devices_of_btrfs_are_found_by_its_list(tmp_path: Path) -> None:
    disks = [disk(tmp_path, name, f"8:{n}", rotational=n) for n, name in enumerate(["sda", "sdb"])]
    for folder in disks:
        link(tmp_path, f"/sys/fs/btrfs/0a1b/devices/{Path(folder).name}", folder)
    mounted(tmp_path, mount("0:31", "btrfs", "/", "/dev/sda"))
    assert storage(tmp_path) == Fact(Storage.HDD, "sdb: queue/rotational is 1")


def test_a_btrfs_on_an_encrypted_volume_is_on_all_its_devices(tmp_path: Path) -> None:
    """As Fedora installs it: /dev/mapper/luks-1 is a link to /dev/dm-0. NFS has no device."""
    for n, name in enumerate(["dm-0", "sdb"]):
        folder = disk(tmp_path, name, f"253:{n}")
        write(tmp_path, f"{folder}/dev", f"253:{n}")
        link(tmp_path, f"/sys/fs/btrfs/0a1b/devices/{name}", folder)
    write(tmp_path, "/dev/dm-0", "")
    link(tmp_path, "/dev/mapper/luks-1", "/dev/dm-0")
    mounted(tmp_path, mount("0:31", "btrfs", "/", "/dev/mapper/luks-1"),
            mount("0:44", "nfs4", "/mnt/pg", "nas:/mnt/sdb"))  # fmt: skip
    tree = Tree(tmp_path)
    assert [one.name for one in layers(tree, PurePosixPath("/"))] == ["dm-0", "sdb"]
    assert layers(tree, PurePosixPath("/mnt/pg")) == ()


def test_a_loop_device_is_what_its_file_lies_on(tmp_path: Path) -> None:
    disk(tmp_path, "sda", "8:0", rotational=1)
    loop = disk(tmp_path, "loop0", "7:0", bus="/sys/devices/virtual")
    write(tmp_path, f"{loop}/loop/backing_file", "/images/pg.img")
    mounted(tmp_path, mount("8:0"), mount("7:0", point="/mnt/pg"))
    assert storage(tmp_path, "/mnt/pg") == Fact(Storage.HDD, "sda: queue/rotational is 1")


def test_a_loop_device_on_itself_ends(tmp_path: Path) -> None:
    loop = disk(tmp_path, "loop0", "7:0", bus="/sys/devices/virtual")
    write(tmp_path, f"{loop}/loop/backing_file", "/pg.img")
    mounted(tmp_path, mount("7:0"))
    assert storage(tmp_path) == "loop0 is a loop device on top of too many others"


def test_links_in_the_path_are_followed(tmp_path: Path) -> None:
    """An absolute link, as in /var/lib/postgresql → /mnt/pg, starts at the machine's own root."""
    disk(tmp_path, "sda", "8:0", rotational=1)
    disk(tmp_path, "sdb", "8:16")
    (tmp_path / "var/lib").mkdir(parents=True)
    (tmp_path / "var/lib/postgresql").symlink_to("/mnt/pg")
    mounted(tmp_path, mount("8:0"), mount("8:16", point="/mnt/pg"))
    assert storage(tmp_path, "/var/lib/postgresql/18") == Fact(
        Storage.SSD, "sdb: queue/rotational is 0"
    )


def test_a_link_to_itself_ends(tmp_path: Path) -> None:
    disk(tmp_path, "sda", "8:0")
    (tmp_path / "data").symlink_to("/data")
    mounted(tmp_path, mount("8:0"))
    assert storage(tmp_path, "/data/pg") == Fact(Storage.SSD, "sda: queue/rotational is 0")


def test_the_last_of_two_mounts_on_one_point_counts(tmp_path: Path) -> None:
    disk(tmp_path, "sda", "8:0", rotational=1)
    disk(tmp_path, "sdb", "8:16")
    mounted(tmp_path, mount("8:0", point="/pg"), mount("8:16", point="/pg"))
    assert storage(tmp_path, "/pg") == Fact(Storage.SSD, "sdb: queue/rotational is 0")


def test_another_process_has_its_own_mounts(tmp_path: Path) -> None:
    """A server in a container seen from outside: /data there is not /data here."""
    disk(tmp_path, "sda", "8:0", rotational=1)
    disk(tmp_path, "sdb", "8:16")
    mounted(tmp_path, mount("8:0"))
    write(
        tmp_path,
        "/proc/4711/mountinfo",
        f"{mount('0:50', 'overlay')}\n{mount('8:16', point='/pg')}",
    )
    (tmp_path / "proc/4711/root").mkdir()
    (tmp_path / "proc/4711/root/data").symlink_to("/pg")
    host = probe(tmp_path, pid=4711, data_directory=Path("/data"))
    assert host.storage == Fact(Storage.SSD, "/pg is on sdb: queue/rotational is 0")


def test_a_process_whose_mounts_are_closed_to_us_does_not_get_ours(tmp_path: Path) -> None:
    disk(tmp_path, "sda", "8:0")
    mounted(tmp_path, mount("8:0"))
    assert probe(tmp_path, pid=4711, data_directory=Path("/data")).storage is None


def test_garbage_in_the_mount_table_is_passed_over(tmp_path: Path) -> None:
    disk(tmp_path, "sda", "8:0")
    mounted(tmp_path, "", "nonsense", "1 2 3 - x", mount("8:0"))
    assert storage(tmp_path) == Fact(Storage.SSD, "sda: queue/rotational is 0")


DATA = "/var/lib/postgresql/data"


def test_pg_wal_linked_to_its_own_mount_is_found(tmp_path: Path) -> None:
    """Found by its mount; a tree of files has no statvfs: its size is unknown, not the data's."""
    mounted(tmp_path, mount("8:1"), mount("8:17", "xfs", "/wal", "/dev/sdb1"))
    (tmp_path / DATA.lstrip("/")).mkdir(parents=True)
    (tmp_path / DATA.lstrip("/") / "pg_wal").symlink_to("/wal/17-main")
    host = probe(tmp_path, data_directory=Path(DATA))
    assert (host.wal_size, host.wal_free) == (None, None)
    (missing,) = [each for each in host.missing if each.name == "wal-disk"]
    assert missing.supply == "--wal-disk"
    assert "/wal" in missing.why


def test_pg_wal_as_a_mount_point_is_found(tmp_path: Path) -> None:
    point = f"{DATA}/pg_wal"
    mounted(tmp_path, mount("8:1"), mount("8:17", "xfs", point, "/dev/sdb1"))
    (tmp_path / point.lstrip("/")).mkdir(parents=True)
    missing = [each.name for each in probe(tmp_path, data_directory=Path(DATA)).missing]
    assert "wal-disk" in missing


@pytest.mark.parametrize(("dataset", "own"), [("tank/wal", False), ("fast/wal", True)])
def test_a_dataset_of_the_same_zfs_pool_is_no_volume_of_its_own(
    tmp_path: Path, dataset: str, own: bool
) -> None:
    """Every dataset has a device number of its own, but the free space is the pool's."""
    point = f"{DATA}/pg_wal"
    mounted(tmp_path, mount("0:60", "zfs", "/", "tank/data"), mount("0:61", "zfs", point, dataset))
    (tmp_path / point.lstrip("/")).mkdir(parents=True)
    missing = {each.name for each in probe(tmp_path, data_directory=Path(DATA)).missing}
    assert ("wal-disk" in missing) is own


def test_a_quota_makes_a_dataset_a_volume_of_its_own() -> None:
    """100 GB are free. Without a quota a dataset is its own 5 GB larger than that."""
    free = Fact(Bytes(100 * GiB), "by hand")
    assert limited(Fact(Bytes(20 * GiB), "by hand"), free)
    assert not limited(Fact(Bytes(105 * GiB), "by hand"), free)
    assert not limited(Missing("disk_size", "by hand"), free)


def test_subvolumes_of_a_btrfs_have_one_device(tmp_path: Path) -> None:
    point = f"{DATA}/pg_wal"
    mounted(tmp_path, mount("0:31", "btrfs"), mount("0:31", "btrfs", point))
    (tmp_path / point.lstrip("/")).mkdir(parents=True)
    missing = {each.name for each in probe(tmp_path, data_directory=Path(DATA)).missing}
    assert "wal-disk" not in missing


@pytest.mark.parametrize("target", ["/var/lib/wal", "/elsewhere/wal"])
def test_pg_wal_on_the_data_file_system_has_no_volume_of_its_own(
    tmp_path: Path, target: str
) -> None:
    """A link within the file system, and one into a bind mount of the same device."""
    mounted(tmp_path, mount("8:1"), mount("8:1", "ext4", "/elsewhere"))
    folder = tmp_path / DATA.lstrip("/")
    folder.mkdir(parents=True)
    (folder / "pg_wal").symlink_to(target)
    host = probe(tmp_path, data_directory=Path(DATA))
    assert "wal-disk" not in {each.name for each in host.missing}
