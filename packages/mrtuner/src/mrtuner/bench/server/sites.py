"""Where variants have their data. Those that can share a data directory do."""

from __future__ import annotations

import secrets
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mrtuner.bench.engine.machine import family
from mrtuner.bench.plan.model import Variant
from mrtuner.bench.server import guard, instance, layers
from mrtuner.errors import BadValue, MissingPart
from mrtuner.postgres.binaries import Binaries, find_binaries
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.conf_file import entry
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.units import Bytes, GiB

_FILE: Final = "mrtuner-variant.conf"
_CHECKSUMS_FROM: Final = 18
_DISK: Final = Bytes(20 * GiB)


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster of ours, and the storage below it."""

    key: str
    cluster: Cluster
    password: str = field(repr=False)
    volume: instance.Volume | None
    scratch: Path  # on the same file system

    def configure(self, text: str) -> None:
        """Write the settings of the variant that is started next."""
        file = self.cluster.data / _FILE
        file.write_text(text, encoding="utf-8")
        file.chmod(0o644)

    def admit(self) -> None:
        """Apply the caps of the volume to the server that runs now."""
        if self.volume is not None and self.cluster.pid is not None:
            self.volume.admit(family(self.cluster.pid))


def key(variant: Variant) -> str:
    """Key of a variant's site: variants with the same installation and storage share files."""
    overlay = "overlay" if variant.storage == "overlay" else ""
    words = (variant.server_bin or "embedded", variant.iops or "", variant.disk or "", overlay)
    return " ".join(str(word) for word in words if word)


def make(stack: ExitStack, variant: Variant, embedded: Path | None) -> Site:
    """Create the site of this variant and of others with its key; the stack removes it."""
    binaries = binaries_of(variant, embedded)
    volume, base = None, scratch_directory()
    stack.callback(shutil.rmtree, base, ignore_errors=True)
    stack.enter_context(guard.directory_removed(base))
    if variant.iops is not None or variant.disk is not None:
        volume = stack.enter_context(instance.volume(Bytes(variant.disk or _DISK)))
        base = volume.place
    scratch, place = base / "layers", base
    scratch.mkdir()
    if variant.storage == "overlay":
        place = stack.enter_context(layers.fresh(scratch))
    password = secrets.token_urlsafe(24)
    cluster = Cluster.create(
        binaries, place / "server", {"log_checkpoints": "on"}, listen=True, password=password
    )
    stack.callback(cluster.remove)
    stack.enter_context(guard.server_stopped(cluster.data))
    _with_checksums(cluster)
    cluster.configure({"include": _FILE})
    # For clients on a container's network; a server outside listens only on 127.0.0.1.
    with (cluster.data / "pg_hba.conf").open("a", encoding="utf-8") as file:
        file.write("host all all samenet scram-sha-256\n")
    if volume is not None and variant.iops is not None:
        volume.throttle(variant.iops)
    return Site(key(variant), cluster, password, volume, scratch)


def _with_checksums(cluster: Cluster) -> None:
    """Enable checksums, as initdb does from 18 on, so that all majors are equally durable."""
    if cluster.binaries.major >= _CHECKSUMS_FROM:
        return
    done = cluster.run("pg_checksums", "--enable", "--pgdata", cluster.data)
    if done.returncode != 0:
        raise MissingPart(
            f"pg_checksums {cluster.binaries.version} failed: {done.stderr.strip()}",
            "Check that installation, or use another.",
        )


def binaries_of(variant: Variant, embedded: Path | None) -> Binaries:
    """The installation that a variant names; MissingPart when it does not exist."""
    return find_binaries(Path(variant.server_bin) if variant.server_bin else embedded)


def group(stack: ExitStack, variant: Variant, site: Site) -> Path | None:
    memory = Bytes(variant.memory) if variant.memory is not None else None
    return stack.enter_context(instance.limits(variant.name, memory, site.volume, variant.iops))


def settings_text(variant: Variant) -> str:
    """Text of a variant's file: what its conf may set (`Variant.conf_lines`), then its settings."""
    known = list(variant.conf_lines)
    if any(name.startswith("include") for name, _ in known):
        raise BadValue(
            f"the file of variant {variant.name} includes another file",
            "Put all settings in one file.",
        )
    lines = [line for _, line in known]
    lines += [entry(name, value) for name, value in variant.settings.items()]
    return "".join(f"{line}\n" for line in lines)
