"""A guest of two cores with two threads each, emulated: what sibling threads look like from inside.

QEMU without KVM runs each of its CPUs as a thread of ours. Both threads of one guest core are
pinned to one CPU of the host, so that they share it as siblings share a core: the guest's kernel
counts full CPU time for both while each gets half. (Two workers pinned to one CPU *inside* one
system only wait for each other, and their CPU time stays as it was.)

Kernel, busybox and Python come from Debian's packages, downloaded and unpacked, not installed; what
the program requires comes from wheels for that Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from importlib.metadata import requires
from pathlib import Path
from typing import Final

import pytest

import mrtuner

NEEDED: Final = ("two CPUs", "qemu-system-x86_64", "cpio", "apt-get", "apt-cache", "dpkg-deb")
#: For each CPU of the guest, the host's CPU that runs it; 0 and 1 are threads of one core.
PINNED: Final = {0: 0, 1: 0, 2: 1, 3: 1}
INIT: Final = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /root
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
export HOME=/root PYTHONPATH=/program PYTHONDONTWRITEBYTECODE=1
/bin/busybox stty -F /dev/ttyS1 raw
/bin/busybox stty -F /dev/ttyS2 raw
measure() {
    {python} -c 'from mrtuner.cli import main; main()' cpu --json --yes {options}
}
measure > /dev/ttyS1
echo off > /sys/devices/system/cpu/smt/control
measure > /dev/ttyS2
/bin/busybox poweroff -f
"""


def run(place: Path, options: str) -> tuple[str, str]:
    """What `mrtuner cpu --json` says in the guest, first with siblings and then without."""
    kernel, tree = _unpacked(place)
    _furnish(tree, options)
    answers = (place / "threads.json", place / "cores.json")
    program = [
        *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "Skylake-Client-v1"),
        *("-smp", "4,sockets=1,cores=2,threads=2", "-m", "2048", "-no-reboot"),
        *("-name", "smt,debug-threads=on", "-display", "none", "-monitor", "none"),
        *("-kernel", str(kernel), "-initrd", str(_packed(tree, place / "initrd"))),
        *("-append", "console=ttyS0 quiet panic=-1", "-serial", f"file:{place / 'console'}"),
        *("-serial", f"file:{answers[0]}", "-serial", f"file:{answers[1]}"),
    ]
    with (
        (place / "qemu").open("wb") as complaints,
        subprocess.Popen(program, stdin=subprocess.DEVNULL, stderr=complaints) as guest,
    ):
        try:
            _pin(guest.pid)
            guest.wait(timeout=900)
        finally:
            guest.kill()
    return answers[0].read_text(), answers[1].read_text()


def _unpacked(place: Path) -> tuple[Path, Path]:
    """The kernel, and a tree with busybox and Python, from packages downloaded to `place`."""
    packages, tree = place / "packages", place / "tree"
    packages.mkdir()
    wanted = [_kernel_package(), "busybox-static", *_with_what_they_need("python3")]
    # Without a sandbox: apt's own user may not enter our folder.
    options = ["-o", "APT::Sandbox::User=root"]
    got = subprocess.run(
        ["apt-get", "download", *options, *wanted],
        cwd=packages, check=False, capture_output=True, text=True,
    )  # fmt: skip
    if got.returncode != 0:
        pytest.skip(f"cannot download Debian's packages: {got.stderr.strip().splitlines()[-1]}")
    for package in sorted(packages.iterdir()):
        subprocess.run(["dpkg-deb", "--extract", package, tree], check=True)
    (kernel,) = (tree / "boot").glob("vmlinuz-*")
    kept = kernel.rename(place / "vmlinuz")
    for heavy in ("boot", "lib/modules", "usr/share"):
        shutil.rmtree(tree / heavy, ignore_errors=True)
    return kept, tree


def _kernel_package() -> str:
    said = _said("apt-cache", "depends", "linux-image-cloud-amd64")
    return next(line.split()[-1] for line in said.splitlines() if "Depends: linux-image-" in line)


def _with_what_they_need(name: str) -> list[str]:
    """A package and all that it needs on an empty system."""
    said = _said(
        *("apt-get", "install", "--simulate", "--no-install-recommends"),
        *("-o", "Dir::State::status=/dev/null", name),
    )
    return [line.split()[1] for line in said.splitlines() if line.startswith("Inst ")]


def _furnish(tree: Path, options: str) -> None:
    """Add our program, the packages that it requires, and the first process."""
    (python,) = (tree / "usr/bin").glob("python3.[0-9]*")
    program = tree / "program"
    required = [one for one in requires("mrtuner") or () if "extra ==" not in one]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--target", program),
            *("--python-version", python.name.removeprefix("python"), "--only-binary=:all:"),
            *("--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_28_x86_64"),
            *required,
        ],
        check=True,
    )  # fmt: skip
    folder = Path(str(mrtuner.__file__)).parent
    shutil.copytree(folder, program / folder.name, ignore=shutil.ignore_patterns("*.pyc"))
    text = INIT.replace("{python}", f"/usr/bin/{python.name}").replace("{options}", options)
    (tree / "init").write_text(text)
    (tree / "init").chmod(0o755)


def _packed(tree: Path, file: Path) -> Path:
    """The tree as an initramfs. Source: the kernel's early-userspace/buffer-format.rst."""
    names = "\n".join(str(path.relative_to(tree)) for path in [tree, *sorted(tree.rglob("*"))])
    with file.open("wb") as out:
        subprocess.run(
            ["cpio", "--create", "--format=newc", "--owner=0:0", "--quiet"],
            cwd=tree, input=names.encode(), stdout=out, check=True,
        )  # fmt: skip
    return file


def _pin(pid: int) -> None:
    """Hold each CPU of the guest to its CPU of the host, once QEMU has started its threads."""
    end = time.monotonic() + 60
    left = dict(PINNED)
    while left:
        if time.monotonic() > end:
            raise TimeoutError(f"QEMU has no threads for its CPUs {sorted(left)}")
        for task in Path(f"/proc/{pid}/task").iterdir():
            name = (task / "comm").read_text().split()
            if name[0] == "CPU" and (number := int(name[1].split("/")[0])) in left:
                os.sched_setaffinity(int(task.name), {left.pop(number)})
        time.sleep(0.05)


def _said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
