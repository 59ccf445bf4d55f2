"""The real builder, with a storage of its own: podman, where it can build here."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from machine import program, require

_STEP = re.compile(r"^(?:\[(\d+)/\d+\] )?STEP \d+/\d+: (.*)$")


@dataclass(frozen=True, slots=True)
class Step:
    """What the builder printed for a line of the Dockerfile."""

    text: str
    cached: bool


@dataclass(frozen=True, slots=True)
class Podman:
    """Builds without a network of containers and without an image from elsewhere."""

    storage: Path

    def build(self, directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
        """Build a directory; the caller checks the return code."""
        return self._run("build", "--isolation=oci", "--network=none", *options, str(directory))

    def steps(self, directory: Path, *options: str) -> list[Step] | None:
        """Build with layers and return what the builder printed for each line.

        None if a stage overtook another that was waiting: then the output does not tell which
        line was cached.
        """
        done = self.build(directory, "--layers", *options)
        assert done.returncode == 0, done.stderr
        found: list[Step] = []
        stages: list[int] = []
        for line in done.stdout.splitlines():
            if match := _STEP.match(line):
                stages.append(int(match[1] or 1))
                found.append(Step(match[2], cached=False))
            elif line.startswith("--> Using cache"):
                found[-1] = Step(found[-1].text, cached=True)
        return found if stages == sorted(stages) else None

    def tree(self, directory: Path) -> set[str] | None:
        """The paths that `COPY .` copies from a directory; None where the builder refuses."""
        out = self.storage / "tree.tar"
        out.unlink(missing_ok=True)
        recipe = self.storage / "Recipe"
        recipe.write_text("FROM scratch\nCOPY . /x\n")
        done = self.build(
            directory, "--layers=false", "--no-cache", f"--output=type=tar,dest={out}",
            f"--file={recipe}",
        )  # fmt: skip
        if done.returncode:
            assert "syntax error" in done.stderr or "exclu" in done.stderr, done.stderr
            return None
        with tarfile.open(out, encoding="utf-8", errors="surrogateescape") as archive:
            return {name.removeprefix("x/") for name in archive.getnames()} - {"x", "."}

    def push(self, image: str, directory: Path) -> subprocess.CompletedProcess[str]:
        """Write an image's blobs, compressed as for a registry, into a directory."""
        return self._run("push", "--compress", image, f"dir:{directory}")

    def remove(self) -> None:
        """Remove every image, intermediate ones too, and the mount that podman leaves behind."""
        self._run("rmi", "--all", "--force")
        overlay = self.storage / "root" / "overlay"
        subprocess.run(["umount", "--lazy", str(overlay)], capture_output=True, check=False)

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        place = ["--root", str(self.storage / "root"), "--runroot", str(self.storage / "run")]
        return subprocess.run(
            ["podman", *place, *words], capture_output=True, text=True, errors="surrogateescape",
            check=False, timeout=200,
        )  # fmt: skip


def podman_or_skip(storage: Path) -> Podman:
    """A builder that keeps its images in this directory; skips the test where it cannot build."""
    require("podman")
    found = Podman(storage)
    trial = storage / "trial"
    trial.mkdir()
    shutil.copy(program("busybox"), trial / "busybox")
    (trial / "Dockerfile").write_text(
        'FROM scratch\nCOPY busybox /bin/sh\nRUN ["/bin/sh", "-c", "true"]\n'
    )
    done = found.build(trial)
    if done.returncode:
        pytest.skip(f"podman cannot build here: {done.stderr.strip().splitlines()[-1:]}")
    return found


@pytest.fixture(scope="session")
def podman(asks: None) -> Iterator[Podman]:
    """Podman with an empty storage of its own, whose path may have at most 50 characters."""
    with tempfile.TemporaryDirectory(prefix="podman-", ignore_cleanup_errors=True) as storage:
        found = podman_or_skip(Path(storage))
        yield found
        found.remove()
