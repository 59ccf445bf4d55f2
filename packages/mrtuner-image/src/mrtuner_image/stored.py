"""An image that was built: its layers, their sizes and its configuration.

Read from an OCI directory, from an archive of one, or from a registry. Nothing is unpacked, and
everything that has a digest is verified. Source: OCI image specification 1.1 (image-layout.md,
manifest.md, image-index.md), distribution specification 1.1.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import posixpath
import re
import tarfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

from mrtuner.errors import BadValue, MissingPart, MrTunerError, UsageError
from mrtuner_image.dockerfile import architecture

#: Largest manifest or configuration that is read [bytes].
_LARGEST: Final = 8 << 20
_CHUNK: Final = 1 << 20
_LAYOUT: Final = "index.json"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_INDEXES: Final = frozenset(
    {
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
    }
)
_DEEPEST: Final = 4
#: Opens the blob with this digest, to be read once.
Opener = Callable[[str], IO[bytes]]


@dataclass(frozen=True, slots=True)
class Blob:
    """A layer as a registry keeps it."""

    digest: str
    size: int  # compressed [bytes]
    media_type: str


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image of one platform."""

    name: str
    layers: tuple[Blob, ...]
    configuration: Mapping[str, Any]
    configuration_size: int
    opener: Opener

    @property
    def size(self) -> int:
        """Bytes that a client without any part of it fetches."""
        return sum(layer.size for layer in self.layers) + self.configuration_size

    def uncompressed(self, layer: Blob) -> int:
        """Bytes of the layer as an archive; all of it is read, and its digest verified.

        Raises:
            MissingPart: it is compressed in a way that is not read here.
        """
        if "zstd" in layer.media_type:
            raise MissingPart(
                f"layer {layer.digest[:19]} of {self.name} is compressed with zstd",
                "Build or push the image with gzip.",
            )
        compared = _Compared(self.opener(layer.digest), layer.digest)
        with closing(io.BufferedReader(compared, _CHUNK)) as stream:
            archive: IO[bytes] = stream
            if layer.media_type.endswith("gzip"):
                archive = cast("IO[bytes]", gzip.GzipFile(fileobj=stream, mode="rb"))
            size = 0
            try:
                while piece := archive.read(_CHUNK):
                    size += len(piece)
            except (OSError, EOFError, zlib.error) as error:
                what = f"layer {layer.digest[:19]} cannot be read: {error}"
                raise _bad(self.name, what) from error
        return size


def read_image(reference: str, wanted: str | None = None) -> StoredImage:
    """Return the image of a platform (``linux/amd64``; by default this machine's).

    `reference` is an OCI directory, an archive of one, or ``registry/name:tag``.

    Raises:
        UsageError: there is no such image. BadValue: the platform is not system/architecture.
        MrTunerError: it cannot be read.
    """
    if wanted is not None and not re.fullmatch(r"[a-z0-9]+/[a-z0-9]+", wanted):
        raise BadValue(
            f"platform {wanted} is not system/architecture", "Give one such as linux/arm64."
        )
    path = Path(reference)
    if path.is_dir():
        return _of_layout(reference, lambda member: (path / member).open("rb"), wanted)
    if path.is_file():
        return _of_layout(reference, _in_archive(path), wanted)
    if "/" not in reference or reference.startswith(("/", "./", "../")):
        raise UsageError(
            f"there is no OCI directory or archive {reference}",
            "Name one, or an image with its registry, such as registry.example/app:1.",
        )
    from mrtuner_image.remote import Remote

    remote = Remote(reference)
    first, kind = remote.manifest(remote.reference)
    return _image(reference, first, kind, remote.blob, remote.manifest, wanted)


def _of_layout(name: str, opener: Callable[[str], IO[bytes]], wanted: str | None) -> StoredImage:
    """Read an image from a layout; `opener` opens a path within it."""

    def blob(digest: str) -> IO[bytes]:
        if not _DIGEST.fullmatch(digest):
            raise _bad(name, f"{digest!r} is not a digest")
        try:
            return opener(f"blobs/sha256/{digest.partition(':')[2]}")
        except (OSError, KeyError):
            raise _bad(name, f"blob {digest[:19]} is missing") from None

    def manifest(digest: str) -> tuple[Mapping[str, Any], str]:
        found = document(name, blob(digest), digest)
        return found, str(found.get("mediaType", ""))

    try:
        index = document(name, opener(_LAYOUT))
    except (OSError, KeyError):
        raise UsageError(
            f"{name} is not an OCI image: it has no {_LAYOUT}",
            "Write one: podman push IMAGE oci:DIR, or podman save --format oci-archive.",
        ) from None
    return _image(name, index, next(iter(_INDEXES)), blob, manifest, wanted)


def _in_archive(path: Path) -> Callable[[str], IO[bytes]]:
    try:
        with tarfile.open(path, "r:") as archive:
            members = {posixpath.normpath(one.name): one for one in archive if one.isfile()}
    except (OSError, tarfile.TarError) as error:
        raise UsageError(
            f"{path} is not an archive: {error}", "Name one of an OCI image, or a directory."
        ) from error
    return lambda name: io.BufferedReader(_Part(path, members[name]), _CHUNK)


class _Part(io.RawIOBase):
    """A member of an archive that is not compressed."""

    def __init__(self, path: Path, member: tarfile.TarInfo) -> None:
        self._file = path.open("rb")
        self._file.seek(member.offset_data)
        self._left = member.size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._file.read(min(len(buffer), self._left))
        self._left -= len(piece)
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._file.close()
        super().close()


def document(name: str, stream: IO[bytes], digest: str | None = None) -> Mapping[str, Any]:
    """Return the JSON object in a stream; its digest is verified if one is given."""
    with stream:
        text = stream.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise _bad(name, f"a document of more than {_LARGEST >> 20} MB")
    if digest is not None and f"sha256:{hashlib.sha256(text).hexdigest()}" != digest:
        raise _bad(name, f"what is kept as {digest[:19]} has another digest")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _bad(name, "a manifest that is not JSON") from None
    if not isinstance(found, dict):
        raise _bad(name, "a manifest that is not a JSON object")
    return found


def _image(
    name: str,
    found: Mapping[str, Any],
    kind: str,
    blob: Opener,
    manifest: Callable[[str], tuple[Mapping[str, Any], str]],
    wanted: str | None,
) -> StoredImage:
    """Follow indexes to the manifest of the platform, and read the image that it describes."""
    for _ in range(_DEEPEST):
        if kind not in _INDEXES and "manifests" not in found:
            break
        digest = _of_platform(name, found.get("manifests"), wanted)
        found, kind = manifest(digest)
    try:
        layers = tuple(
            Blob(str(one["digest"]), int(one["size"]), str(one["mediaType"]))
            for one in found["layers"]
        )
        config, size = str(found["config"]["digest"]), int(found["config"]["size"])
    except (KeyError, TypeError, ValueError):
        raise _bad(name, "a manifest without layers and configuration") from None
    told = document(name, blob(config), config)
    return StoredImage(name, layers, told, size, blob)


def tables(found: object) -> list[dict[str, Any]]:
    """The objects in a JSON list; empty if it is not a list."""
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _of_platform(name: str, listed: object, wanted: str | None) -> str:
    """The digest of the manifest for a platform; attestations have no real platform."""
    rows = tables(listed)
    if not rows:
        raise _bad(name, "an index without manifests")
    if len(rows) == 1 and wanted is None:
        return str(rows[0].get("digest"))
    asked = wanted or f"linux/{architecture()}"
    known = {_platform(one): str(one.get("digest")) for one in reversed(rows)}
    if asked not in known:
        there = ", ".join(sorted(known.keys() - {"unknown/unknown", ""})) or "none by name"
        raise UsageError(f"{name} has no image for {asked}", f"There are: {there}.")
    return known[asked]


def _platform(row: Mapping[str, Any]) -> str:
    told = row.get("platform")
    return f"{told.get('os')}/{told.get('architecture')}" if isinstance(told, dict) else ""


class _Compared(io.RawIOBase):
    """A stream whose digest is verified at its end."""

    def __init__(self, stream: IO[bytes], digest: str) -> None:
        self._stream, self._digest = stream, digest
        self._seen = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._stream.read(len(buffer))
        self._seen.update(piece)
        if not piece and f"sha256:{self._seen.hexdigest()}" != self._digest:
            raise OSError(f"what is kept as {self._digest[:19]} has another digest")
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _bad(name: str, what: str) -> MrTunerError:
    return MrTunerError(f"{name}: {what}", "Build or copy the image again.")
