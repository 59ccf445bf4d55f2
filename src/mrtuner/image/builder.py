"""Build with podman or buildah in a separate storage. Linux, as root.

The machine's own storage is not changed, except for the builder's record of blobs that it has seen
(/var/lib/containers/cache); builds can use its images. Every RUN is a container of an OCI runtime:
with `--isolation chroot`, root would get the machine's own /dev, and a `chown -R` of everything
would reach it. Without a network, the builder itself has none either, because it fetches what ADD
names. Layers and images are read directly from the builder's files.
Source: containers/storage 1.43, layers.go (Layer) and images.go (Image).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from mrtuner.errors import MissingPart, MrTunerError
from mrtuner.units import pretty_bytes

Program = Literal["podman", "buildah"]
PROGRAMS: Final[tuple[Program, ...]] = ("podman", "buildah")
Network = Literal["none", "host"]
#: Prefix of the names of our images.
OURS: Final = "localhost/mrtuner-"
_STEP: Final = re.compile(r"(?:\[\d+/\d+\] )?STEP \d+/\d+: (.*)\s*")
_CACHED: Final = "--> Using cache"
_TOLD: Final = 20  # last lines of output kept for the message
#: With less free space [bytes], a full disk may be the cause, which builders report variously.
_SCARCE: Final = 256 << 20
#: Images of the machine, which builds may use.
#: Source: containers-storage.conf(5), additionalimagestores.
IMAGE_STORE: Final = Path("/var/lib/containers/storage")
#: A longer path is refused. Source: podman, "the specified runroot is longer than 50 characters".
_LONGEST: Final = 50
#: One of these runs the containers.
_RUNTIMES: Final = ("runc", "crun")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BuiltLine:
    """A line of the Dockerfile, and whether it was found in the cache."""

    text: str
    cached: bool


@dataclass(frozen=True, slots=True)
class Built:
    """What a build made."""

    image: str  # its id
    lines: tuple[BuiltLine, ...]
    layers: tuple[int, ...]  # bytes of each layer that is new to the storage, uncompressed


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is built: a directory, its Dockerfile, and the values of its arguments."""

    directory: Path
    file: Path
    arguments: Mapping[str, str] = field(default_factory=dict)
    name: str = "the image"  # in messages


@dataclass(slots=True)
class Builder(AbstractContextManager["Builder"]):
    """A builder with an empty storage, which is removed at the end of the block."""

    program: Program
    directory: Path
    network: Network = "none"
    options: Sequence[str] = ()  # further ones for every build
    image_store: Path = IMAGE_STORE  # images that builds may use
    _kept: set[str] = field(default_factory=set)

    def __enter__(self) -> Builder:
        require(self.program)
        if len(os.fsencode(self._run_root)) > _LONGEST:
            raise MissingPart(
                f"the directory {self.directory} is too long a path for {self.program}",
                "Set TMPDIR to a directory with a short path.",
            )
        self.directory.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        for name in ("root", "run"):
            _unmount_below(self.directory / name)
            shutil.rmtree(self.directory / name, ignore_errors=True)

    @property
    def version(self) -> str:
        """What the builder reports, such as ``podman version 4.3.1``."""
        words = [self.program, "--version"]
        said = subprocess.run(words, check=False, capture_output=True, text=True)
        return said.stdout.strip()

    def build(
        self, recipe: Recipe, tag: str, *, cache: bool = True, say: Say = lambda _text: None
    ) -> Built:
        """Build an image and name it ``OURS + tag``; `say` gets each line as it begins.

        Raises:
            MrTunerError: the build failed; the message has the builder's error.
        """
        before = self._layers()
        named = self.directory / "image-id"
        given = [f"--build-arg={name}={value}" for name, value in recipe.arguments.items()]
        lines: list[BuiltLine] = []
        words = [
            "build", "--layers", *(() if cache else ("--no-cache",)), "--isolation=oci",
            f"--network={self.network}", *(("--pull=never",) if self.network == "none" else ()),
            "--iidfile", str(named),
            "--file", str(recipe.file), "--tag", OURS + tag, *given, *self.options,
            str(recipe.directory),
        ]  # fmt: skip
        for text in self._told(words, f"could not build {recipe.name}"):
            if match := _STEP.fullmatch(text):
                lines.append(BuiltLine(match[1], cached=False))
                say(match[1])
            elif text.startswith(_CACHED) and lines:
                lines[-1] = BuiltLine(lines[-1].text, cached=True)
        fresh = self._layers()
        return Built(
            named.read_text(encoding="utf-8").strip().removeprefix("sha256:"),
            tuple(line for line in lines if not line.text.startswith("FROM ")),
            tuple(size for layer, size in fresh.items() if layer not in before),
        )

    def push(self, tag: str, reference: str) -> None:
        """Push one of our images to a registry of ours, compressed by gzip."""
        words = [
            "push", "--quiet", "--tls-verify=false", "--compression-format", "gzip", OURS + tag,
            f"docker://{reference}",
        ]  # fmt: skip
        for _ in self._told(words, f"could not push to {reference}", network="host"):
            """Only an error says something."""

    def keep(self) -> None:
        """Make `forget` keep the present images, which are the cache of every later build."""
        for number, image in enumerate(sorted(self._images())):
            self._run("tag", image, f"{OURS}kept:{number}")
        self._kept = set(self._images())

    def forget(self) -> None:
        """Remove the images made since `keep`, with their parents. MrTunerError if they remain."""
        while gone := [
            image
            for image, names in self._images().items()
            if image not in self._kept and all(name.startswith(OURS) for name in names)
        ]:
            self._run("rmi", "--force", *gone, check=False)  # parents go after their children
            if set(gone) <= set(self._images()):
                raise MrTunerError(
                    f"{self.program} does not remove images of {self.directory}",
                    "Another program may be using them; start again.",
                )

    @property
    def _run_root(self) -> Path:
        return self.directory / "run"

    def _words(self, network: Network) -> list[str]:
        apart = ["unshare", "--net", "--"] if network == "none" else []
        images = f"overlay.imagestore={self.image_store}"
        store = ["--storage-opt", images] if self.image_store.is_dir() else []
        place = ["--root", str(self.directory / "root"), "--runroot", str(self._run_root)]
        return [*ends_with_us(), *apart, self.program, *place, *store]

    def _run(self, *words: str, check: bool = True) -> None:
        done = subprocess.run(
            [*self._words("host"), *words], check=False, capture_output=True, text=True,
            errors="replace", stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if check and done.returncode:
            raise self._failed(f"{words[0]} failed", done.stderr.splitlines(), "host")

    def _told(
        self, words: Sequence[str], what: str, network: Network | None = None
    ) -> Iterator[str]:
        """Run a command and yield its output; terminate it if the caller stops reading."""
        last: deque[str] = deque(maxlen=_TOLD)
        with subprocess.Popen(
            [*self._words(network or self.network), *words], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        ) as process:  # fmt: skip
            assert process.stdout is not None  # noqa: S101 - a pipe was asked for
            try:
                for line in process.stdout:
                    last.append(line)
                    yield line.rstrip("\n")
            except BaseException:
                process.terminate()
                raise
        if process.returncode:
            if process.returncode < 0:
                last.append(f"error: it was ended by {signal.strsignal(-process.returncode)}")
            raise self._failed(what, last, network or self.network)

    def _failed(self, what: str, told: Collection[str], network: Network) -> MrTunerError:
        said = [line.strip() for line in told if line.strip()]
        last = next((line for line in said if line.lower().startswith("error")), "no reason given")
        left = shutil.disk_usage(self.directory).free
        if left < _SCARCE:
            hint = f"Free space, or set TMPDIR: {self.directory} has {pretty_bytes(left)} left."
        elif network == "none":
            hint = "Builds have no network by default: pull base images first, or give --network."
        else:
            hint = f"Run {self.program} by hand to see why."
        return MrTunerError(f"{self.program} {what}: {re.sub('(?i)^error: ', '', last)}", hint)

    def _layers(self) -> dict[str, int]:
        """The layers in the storage by id, with their sizes as archives [bytes]."""
        return {
            str(one["id"]): int(one["diff-size"])
            for one in self._listed("layers")
            if "diff-size" in one
        }

    def _images(self) -> dict[str, list[str]]:
        """The images in the storage by id, with their names."""
        return {str(one["id"]): list(one.get("names") or ()) for one in self._listed("images")}

    def _listed(self, what: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for path in (self.directory / "root").glob(f"*-{what}/*{what}.json"):
            found += json.loads(path.read_bytes() or b"[]") or []
        return found


def require(program: Program) -> None:
    """Raise MissingPart if the program cannot build here."""
    if os.geteuid() != 0:
        raise MissingPart("building both forms needs root", "Run it as root, or with sudo.")
    needed = {program: (program,), "util-linux": ("unshare",), "runc": _RUNTIMES}
    for package, names in needed.items():
        if not any(map(shutil.which, names)):
            raise MissingPart(
                f"program {' or '.join(names)} not found",
                f"Install it, on Debian: apt-get install {package}.",
            )


def mounted(directory: Path) -> Path:
    """The directory below which a builder in `directory` has its mounts while it runs."""
    return directory / "root/overlay"


def ends_with_us() -> list[str]:
    """Prefix for a command that must end if we are killed; empty without util-linux."""
    return ["setpriv", "--pdeathsig", "TERM", "--"] if shutil.which("setpriv") else []


@contextmanager
def short_directory() -> Iterator[Path]:
    """Yield a temporary directory for a storage, whose path must be short."""
    with TemporaryDirectory(prefix="mrt-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def _unmount_below(directory: Path) -> None:
    """Unmount everything below a directory: a killed builder leaves its mounts."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()[::-1]:
        place = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), line.split(" ")[4])
        if Path(place).is_relative_to(directory):
            subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)
