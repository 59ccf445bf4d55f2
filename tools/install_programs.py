"""Programs that tests run besides Python's packages, and the Debian packages that bring them.

    sudo python3 tools/install_programs.py          # install what `make test` still lacks
    sudo python3 tools/install_programs.py --slow   # and what `make test-slow` lacks

A test whose programs are missing is skipped, so a package that cannot be installed is no failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

#: What every Debian has but a container image may lack.
USUAL: Final = {
    "chrt": "util-linux", "ip": "iproute2", "losetup": "mount", "mkfs.ext4": "e2fsprogs",
    "mount": "mount", "openssl": "openssl", "patch": "patch", "ps": "procps",
    "setpriv": "util-linux", "ss": "iproute2", "taskset": "util-linux", "tc": "iproute2",
    "unshare": "util-linux",
}  # fmt: skip
PROGRAMS: Final = {
    "buildah": "buildah", "busybox": "busybox-static", "chromium": "chromium",
    "docker-registry": "docker-registry", "iptables": "iptables", "mvn": "maven",
    "pgbouncer": "pgbouncer", "podman": "podman containernetworking-plugins",
    "prometheus": "prometheus", "promtool": "prometheus", "puma": "puma", "ruby": "ruby",
    "runc": "runc", "slirp4netns": "slirp4netns", "sysbench": "sysbench", "unicorn": "unicorn",
}  # fmt: skip
#: Ruby's libraries, by what `require` calls them.
LIBRARIES: Final = {
    "active_record/version": "ruby-activerecord", "pg": "ruby-pg",
    "rails/version": "ruby-railties",
}  # fmt: skip
SLOW: Final = {
    "cpio": "cpio", "go": "golang-go", "java": "default-jre-headless",
    "javac": "default-jdk-headless", "mariadb-install-db": "mariadb-server-core",
    "mariadbd": "mariadb-server-core", "my_print_defaults": "mariadb-client-core",
    "qemu-system-x86_64": "qemu-system-x86", "systemd-analyze": "systemd",
}  # fmt: skip
#: Programs that only Debian has, or that `make install` brings, too.
OTHERS: Final = {
    "apt-get": "apt", "apt-cache": "apt", "dpkg-deb": "dpkg", "node": "nodejs", "npm": "npm",
}  # fmt: skip
PACKAGES: Final[Mapping[str, str]] = {**USUAL, **PROGRAMS, **SLOW, **OTHERS}
_EVERYWHERE: Final = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


@cache
def has_library(name: str) -> bool:
    """Whether Ruby is here, with this library."""
    try:
        done = subprocess.run(["ruby", "-r", name, "-e", ""], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


def lacking(programs: Iterable[str]) -> list[str]:
    """The packages of those programs and libraries that are not here, each once."""
    absent = [PACKAGES[name] for name in programs if not shutil.which(name, path=_EVERYWHERE)]
    absent += [package for name, package in LIBRARIES.items() if not has_library(name)]
    return sorted(set(absent))


def main(arguments: list[str]) -> int:
    """Install them one by one, so that none keeps the others out; say which could not be had."""
    wanted = lacking([*USUAL, *PROGRAMS, *(SLOW if "--slow" in arguments else ())])
    if not wanted:
        return 0
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        sys.stderr.write(f"not installed, which needs root and apt-get: {', '.join(wanted)}\n")
        return 1
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=False)
    failed = [
        packages
        for packages in wanted
        if subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages.split()],
            env=environment, stdout=subprocess.DEVNULL, check=False,
        ).returncode
    ]  # fmt: skip
    if failed:
        sys.stderr.write(f"could not be installed: {', '.join(failed)}; their tests are skipped\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
